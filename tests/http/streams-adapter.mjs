// Lets the conformance tests of Durable Streams write to a daemon, which has no write side of that protocol:
// streams-adapter.mjs prints its port. A PUT creates a session whose stream of events is the stream, a POST appends
// messages to it. GET and HEAD go to the daemon as they are and come back as they are, only under the session's path.
import http from "node:http";

const daemon = process.env.LONGHAND_URL;
const credentials = process.env.LONGHAND_TOKEN ? { authorization: `Bearer ${process.env.LONGHAND_TOKEN}` } : {};

function call(method, path, body) {
    const headers = body ? { ...credentials, "content-type": "application/json" } : credentials;
    return fetch(daemon + path, { method, headers, body: body && JSON.stringify(body) });
}

async function must(answer) {
    if (!answer.ok) {
        throw new Error(`${answer.url}: ${answer.status} ${await answer.text()}`);
    }
    return answer;
}

// The values of a body: the elements of a JSON array, else the whole body as one.
function values(body) {
    if (body.length === 0) {
        return [];
    }
    try {
        const value = JSON.parse(body);
        return Array.isArray(value) ? value : [value];
    } catch {
        return [body.toString("latin1")];
    }
}

async function append(session, values) {
    const text = (value) => ({ role: "ROLE_USER", parts: [{ text: { text: JSON.stringify(value) } }] });
    if (values.length > 0) {
        await must(await call("POST", `/v1/sessions/${session}/messages`, { messages: values.map(text) }));
    }
}

async function write(request, response, session) {
    const chunks = [];
    for await (const chunk of request) {
        chunks.push(chunk);
    }
    const body = Buffer.concat(chunks);
    const exists = (await call("GET", `/v1/sessions/${session}`)).ok;
    if (request.method === "POST" && !exists) {
        response.writeHead(404).end();
        return;
    }
    if (!exists) {
        await must(await call("POST", "/v1/sessions", { clientId: session }));
    }
    if (request.method === "POST" || !exists) {
        await append(session, values(body));
    }
    const tail = await must(await call("HEAD", `/v1/sessions/${session}/events`));
    const status = request.method === "POST" ? 204 : exists ? 200 : 201;
    response.writeHead(status, {
        "content-type": request.headers["content-type"] ?? "application/octet-stream",
        location: `http://${request.headers.host}${request.url}`,
        "stream-next-offset": tail.headers.get("stream-next-offset"),
    });
    response.end();
}

function read(request, response, session, search) {
    const headers = { ...request.headers, ...credentials, host: new URL(daemon).host };
    const options = { method: request.method, headers };
    const passed = http.request(`${daemon}/v1/sessions/${session}/events${search}`, options, (answer) => {
        response.writeHead(answer.statusCode, answer.rawHeaders);
        answer.pipe(response);
    });
    passed.on("error", () => response.destroy());
    response.on("close", () => passed.destroy());
    passed.end();
}

const server = http.createServer(async (request, response) => {
    const { pathname, search } = new URL(request.url, "http://adapter");
    // A client id has no slashes and at most 128 bytes; the end of a path is what differs.
    const session = Buffer.from(pathname).toString("hex").slice(-120);
    if (request.method !== "PUT" && request.method !== "POST") {
        read(request, response, session, search);
        return;
    }
    try {
        await write(request, response, session);
    } catch (error) {
        console.error(error);
        response.writeHead(500).end(String(error));
    }
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
