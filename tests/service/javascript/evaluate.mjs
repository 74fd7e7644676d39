// Evaluates flags with the OpenFeature server SDK and its OFREP provider, and prints JSON lines.
//
// Usage: node evaluate.mjs, with a JSON list of evaluations on stdin, each
// {"url": …, "key": …, "type": "string", "flag": …, "default": …, "context": {…}}.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

// the packages are in the folder where this runs, which is not that of this file
const require = createRequire(`${process.cwd()}/package.json`);
const { OpenFeature } = require("@openfeature/server-sdk");
const { OFREPProvider } = require("@openfeature/ofrep-provider");

const methods = {
  string: "getStringDetails",
  boolean: "getBooleanDetails",
  number: "getNumberDetails",
};
let url;
for (const asked of JSON.parse(readFileSync(0, "utf8"))) {
  if (asked.url !== url) {
    url = asked.url;
    const headers = asked.key ? [["Authorization", `Bearer ${asked.key}`]] : [];
    await OpenFeature.setProviderAndWait(new OFREPProvider({ baseUrl: url, headers }));
  }
  const client = OpenFeature.getClient();
  const found = await client[methods[asked.type]](asked.flag, asked.default, asked.context);
  console.log(JSON.stringify(found));
}
await OpenFeature.close();
