// pi 1.5: one program knows all versions.
import "./pi.mjs";
