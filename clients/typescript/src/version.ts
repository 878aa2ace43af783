/** Versions of client, daemon and protocol. */

/** The version of this client, and of the daemon of its packages. */
export const VERSION = "0.1.0";

/** True if a daemon of one version speaks the protocol of a client of another: before 1.0, the same minor version. */
export function sameProtocol(daemon: string, client: string = VERSION): boolean {
  const [theirs, ours] = [daemon.split("."), client.split(".")];
  const length = ours[0] === "0" ? 2 : 1;
  return theirs.slice(0, length).join(".") === ours.slice(0, length).join(".");
}
