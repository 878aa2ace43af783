/** Messages, enums and services of the protocol, for `import * as v1 from "longhand/v1"`. */

export * from "./gen/v1.js";
