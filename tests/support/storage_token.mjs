// Opens storage tokens as HTTP workers in Node do: one JSON {token, secret, format} on stdin, the content on stdout.
import { createDecipheriv, pbkdf2Sync } from "node:crypto";
import { readFileSync } from "node:fs";

const { token, secret, format } = JSON.parse(readFileSync(0, "utf8"));

function decrypt(key, iv, tag, ciphertext) {
  const decipher = createDecipheriv("aes-256-gcm", key, iv);
  decipher.setAuthTag(tag);
  return Buffer.concat([decipher.update(ciphertext), decipher.final()]).toString("utf8");
}

function openSdk() {
  const [iv, tag, ciphertext] = token.split(":").map((part) => Buffer.from(part, "base64"));
  const bytes = Buffer.from(secret, "utf8");
  const key = Buffer.alloc(32);
  for (let i = 0; i < 32; i++) key[i] = bytes[i % bytes.length];
  return decrypt(key, iv, tag, ciphertext);
}

function openPbkdf2() {
  const all = Buffer.from(token, "base64url");
  const key = pbkdf2Sync(secret, all.subarray(0, 32), 100000, 32, "sha256");
  return decrypt(key, all.subarray(32, 48), all.subarray(48, 64), all.subarray(64));
}

process.stdout.write(format === "sdk" ? openSdk() : openPbkdf2());
