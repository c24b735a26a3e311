// S3 as programs in JavaScript use it: the AWS SDK, version 3. URL, KEY, SECRET and BUCKET are in
// the environment; the exit code is 0 if every assertion holds.
"use strict";

const assert = require("node:assert");
const crypto = require("node:crypto");
const s3 = require("@aws-sdk/client-s3");
const { Upload } = require("@aws-sdk/lib-storage");
const { getSignedUrl } = require("@aws-sdk/s3-request-presigner");

const { URL: endpoint, KEY, SECRET, BUCKET: Bucket } = process.env;
const client = new s3.S3Client({
  endpoint,
  region: "us-east-1",
  forcePathStyle: true,
  maxAttempts: 1,
  credentials: { accessKeyId: KEY, secretAccessKey: SECRET },
});
const send = (Command, input) => client.send(new s3[Command]({ Bucket, ...input }));
const bytesOf = async (response) => Buffer.from(await response.Body.transformToByteArray());

async function main() {
  await send("CreateBucketCommand");
  const large = crypto.randomBytes(12_000_000);
  await new Upload({
    client,
    partSize: 5 * 1024 * 1024,
    params: { Bucket, Key: "large é+&", Body: large },
  }).done();
  assert.ok(large.equals(await bytesOf(await send("GetObjectCommand", { Key: "large é+&" }))));
  const part = await send("GetObjectCommand", { Key: "large é+&", Range: "bytes=10-19" });
  assert.ok(large.subarray(10, 20).equals(await bytesOf(part)));

  // The SDK sends a CRC in a header, for streams in a trailer, and verifies what it reads.
  await send("PutObjectCommand", { Key: "small", Body: "tiny", Metadata: { colour: "blue" } });
  const head = await send("HeadObjectCommand", { Key: "small", ChecksumMode: "ENABLED" });
  assert.strictEqual(head.Metadata.colour, "blue");
  assert.ok(head.ChecksumCRC32);
  await assert.rejects(
    send("PutObjectCommand", { Key: "small", Body: "again", IfNoneMatch: "*" }),
    { name: "PreconditionFailed" },
  );
  await assert.rejects(send("GetObjectCommand", { Key: "absent" }), { name: "NoSuchKey" });
  await send("CopyObjectCommand", {
    Key: "copy",
    CopySource: `${Bucket}/${encodeURIComponent("large é+&")}`,
  });

  const keys = [];
  for await (const page of s3.paginateListObjectsV2({ client, pageSize: 2 }, { Bucket })) {
    keys.push(...page.Contents.map((entry) => entry.Key));
  }
  assert.deepStrictEqual(keys, ["copy", "large é+&", "small"]);

  const url = await getSignedUrl(client, new s3.GetObjectCommand({ Bucket, Key: "small" }));
  assert.strictEqual(await (await fetch(url)).text(), "tiny");
  const upload = await getSignedUrl(client, new s3.PutObjectCommand({ Bucket, Key: "copy" }));
  assert.strictEqual((await fetch(upload, { method: "PUT", body: "sent" })).status, 200);
  assert.equal(await bytesOf(await send("GetObjectCommand", { Key: "copy" })), "sent");

  const removed = await send("DeleteObjectsCommand", {
    Delete: { Objects: keys.map((Key) => ({ Key })) },
  });
  assert.strictEqual(removed.Deleted.length, 3);
  await send("DeleteBucketCommand");
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
