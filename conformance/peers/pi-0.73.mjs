// pi 0.73: one program knows all versions.
import "./pi.mjs";
