// Writes the numbers of a stream's events from its beginning, one a line: tail.mjs URL LIVE COUNT.
import { stream } from "@durable-streams/client";
import { writeSync } from "node:fs";

const [url, live, count] = process.argv.slice(2);
const token = process.env.LONGHAND_TOKEN;
const headers = token ? { Authorization: `Bearer ${token}` } : {};
const response = await stream({
    url,
    live,
    offset: "-1",
    json: true,
    headers,
    // While the daemon is away, a client tries again.
    backoffOptions: { initialDelay: 100, maxDelay: 1000, multiplier: 1.5 },
});
let seen = 0;
response.subscribeJson(async (batch) => {
    for (const event of batch.items) {
        writeSync(1, `${event.seq}\n`);
        seen += 1;
        if (seen === Number(count)) {
            process.exit(0);
        }
    }
});
