// S3 as programs in Go use it: minio-go, on which MinIO's own client is built. URL, KEY, SECRET
// and BUCKET are in the environment; the exit code is 0 if everything came back as it was sent.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/tags"
)

const partBytes = 5 * 1024 * 1024

func require(holds bool, format string, values ...any) {
	if !holds {
		fmt.Fprintf(os.Stderr, format+"\n", values...)
		os.Exit(1)
	}
}

func check(err error) {
	require(err == nil, "%v", err)
}

func connect(trailers bool) *minio.Client {
	client, err := minio.New(strings.TrimPrefix(os.Getenv("URL"), "http://"), &minio.Options{
		Creds:           credentials.NewStaticV4(os.Getenv("KEY"), os.Getenv("SECRET"), ""),
		TrailingHeaders: trailers,
	})
	check(err)
	return client
}

// With checksums in trailers, as MinIO's own client mc sends them: in one piece whose payload is
// not signed, and in parts, whose joint checksum the client names at completion.
func putWithTrailers(ctx context.Context, bucket string, large []byte) {
	client := connect(true)
	for _, body := range [][]byte{large[:100_000], large} {
		options := minio.PutObjectOptions{
			PartSize: partBytes, Checksum: minio.ChecksumCRC32C, DisableContentSha256: true,
		}
		_, err := client.PutObject(ctx, bucket, "trailed", bytes.NewReader(body), int64(len(body)), options)
		check(err)
		info, err := client.StatObject(ctx, bucket, "trailed", minio.StatObjectOptions{Checksum: true})
		check(err)
		require(info.Size == int64(len(body)) && info.ChecksumCRC32C != "", "trailed: %+v", info)
	}
	check(client.RemoveObject(ctx, bucket, "trailed", minio.RemoveObjectOptions{}))
}

func main() {
	ctx := context.Background()
	bucket := os.Getenv("BUCKET")
	client := connect(false)
	check(client.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}))

	large := make([]byte, 12_000_000)
	_, err := rand.Read(large)
	check(err)
	putWithTrailers(ctx, bucket, large)
	// In parts of a known length, and as a stream of an unknown one.
	for key, size := range map[string]int64{"d/large é+&": int64(len(large)), "d/stream": -1} {
		_, err = client.PutObject(ctx, bucket, key, bytes.NewReader(large), size,
			minio.PutObjectOptions{PartSize: partBytes, UserMetadata: map[string]string{"Colour": "blue"}})
		check(err)
		object, err := client.GetObject(ctx, bucket, key, minio.GetObjectOptions{})
		check(err)
		body, err := io.ReadAll(object)
		check(err)
		require(bytes.Equal(body, large), "%s came back otherwise", key)
	}
	info, err := client.StatObject(ctx, bucket, "d/stream", minio.StatObjectOptions{})
	check(err)
	require(info.UserMetadata["Colour"] == "blue", "metadata %v", info.UserMetadata)

	_, err = client.ComposeObject(ctx,
		minio.CopyDestOptions{Bucket: bucket, Object: "joined"},
		minio.CopySrcOptions{Bucket: bucket, Object: "d/stream"},
		minio.CopySrcOptions{Bucket: bucket, Object: "d/large é+&", MatchRange: true, Start: 0, End: 9})
	check(err)
	info, err = client.StatObject(ctx, bucket, "joined", minio.StatObjectOptions{})
	check(err)
	require(info.Size == int64(len(large)+10), "joined has %d bytes", info.Size)

	labels, err := tags.NewTags(map[string]string{"team": "blue"}, true)
	check(err)
	check(client.PutObjectTagging(ctx, bucket, "joined", labels, minio.PutObjectTaggingOptions{}))
	stored, err := client.GetObjectTagging(ctx, bucket, "joined", minio.GetObjectTaggingOptions{})
	check(err)
	require(stored.ToMap()["team"] == "blue", "tags %v", stored)

	conditional := minio.PutObjectOptions{}
	conditional.SetMatchETagExcept("*")
	_, err = client.PutObject(ctx, bucket, "joined", strings.NewReader("x"), 1, conditional)
	require(minio.ToErrorResponse(err).Code == "PreconditionFailed", "overwritten: %v", err)
	_, err = client.StatObject(ctx, bucket, "absent", minio.StatObjectOptions{})
	require(minio.ToErrorResponse(err).Code == "NoSuchKey", "absent: %v", err)

	link, err := client.PresignedGetObject(ctx, bucket, "joined", time.Hour, url.Values{})
	check(err)
	response, err := http.Get(link.String())
	check(err)
	body, err := io.ReadAll(response.Body)
	check(err)
	require(response.StatusCode == 200 && len(body) == len(large)+10, "presigned: %s", response.Status)

	names := []string{}
	for entry := range client.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true}) {
		check(entry.Err)
		names = append(names, entry.Key)
	}
	require(strings.Join(names, "|") == "d/large é+&|d/stream|joined", "listed %q", names)

	check(client.SetBucketVersioning(ctx, bucket, minio.BucketVersioningConfiguration{Status: minio.Enabled}))
	check(client.RemoveObject(ctx, bucket, "joined", minio.RemoveObjectOptions{}))
	versions := make(chan minio.ObjectInfo)
	go func() {
		defer close(versions)
		for entry := range client.ListObjects(ctx, bucket,
			minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
			check(entry.Err)
			versions <- entry
		}
	}()
	for failure := range client.RemoveObjects(ctx, bucket, versions, minio.RemoveObjectsOptions{}) {
		check(failure.Err)
	}
	check(client.RemoveBucket(ctx, bucket))
}
