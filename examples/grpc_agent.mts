// A first agent from the protos alone; docs/grpc.md says what it needs.
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

const files = ["session", "view", "message"].map((name) => `longhand/v1/${name}.proto`);
const definition = loadSync(files, { includeDirs: ["proto"], longs: String, enums: String, oneofs: true });
const { v1 } = (grpc.loadPackageDefinition(definition) as any).longhand;
const options = { "grpc.max_receive_message_length": 64 << 20 };
const connect = (service: any) => new service(process.env.LONGHAND_SERVER, grpc.credentials.createInsecure(), options);
const [sessions, views, messages] = [v1.SessionService, v1.ViewService, v1.MessageService].map(connect);
const call = (client: any, method: string, request: object): Promise<any> =>
  new Promise((done, fail) => client[method](request, (error: Error, answer: any) => (error ? fail(error) : done(answer))));
const append = (role: string, text: string, finish?: object) =>
  call(messages, "appendMessages", { sessionId, messages: [{ role, parts: [{ text: { text } }], finish }] });

const window = { maxContextTokens: 64000 };
const { sessionId } = (await call(sessions, "createSession", { preset: "opencode@seed", window })).session;
await append("ROLE_USER", "What is 2 + 2?");
const frames: any[] = await views.getView({ sessionId }).toArray();
const view = frames.flatMap((frame) => frame.messages?.messages ?? []);
console.log(view.map((message) => [message.role, message.parts.map((part: any) => part.part.text.text)])); // for your model
const usage = { inputTokens: 12, outputTokens: 3 };
const finish = { reason: "FINISH_REASON_STOP", usage, viewToken: frames[0].header.viewToken };
console.log((await append("ROLE_ASSISTANT", "4", finish)).contextUsage);
