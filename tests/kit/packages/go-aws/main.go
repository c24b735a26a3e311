// S3 as programs in Go use it: AWS's SDK for Go, version 2. URL, KEY, SECRET and BUCKET are in the
// environment; the exit code is 0 if everything came back as it was sent.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
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

func main() {
	ctx := context.Background()
	bucket := aws.String(os.Getenv("BUCKET"))
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(os.Getenv("URL")),
		Region:       "us-east-1",
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(os.Getenv("KEY"), os.Getenv("SECRET"), ""),
	})
	_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: bucket})
	check(err)

	read := func(key string) []byte {
		got, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: bucket, Key: &key})
		check(err)
		data, err := io.ReadAll(got.Body)
		check(err)
		return data
	}

	// A body that can be sought is signed with its hash and has a checksum in a header.
	_, err = client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("a b+é.txt"), Body: strings.NewReader("text"),
		Metadata:          map[string]string{"origin": "go"},
		ChecksumAlgorithm: types.ChecksumAlgorithmSha256,
	})
	check(err)
	require(string(read("a b+é.txt")) == "text", "another text came back")
	head, err := client.HeadObject(ctx, &s3.HeadObjectInput{
		Bucket: bucket, Key: aws.String("a b+é.txt"), ChecksumMode: types.ChecksumModeEnabled,
	})
	check(err)
	require(head.Metadata["origin"] == "go", "metadata %v", head.Metadata)
	require(aws.ToString(head.ChecksumSHA256) != "", "no checksum came back")

	large := make([]byte, 2*partBytes+123)
	_, err = rand.Read(large)
	check(err)
	uploader := manager.NewUploader(client, func(u *manager.Uploader) { u.PartSize = partBytes })
	_, err = uploader.Upload(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("dir/large"), Body: io.MultiReader(bytes.NewReader(large)),
	})
	check(err)
	buffer := manager.NewWriteAtBuffer(nil)
	downloader := manager.NewDownloader(client, func(d *manager.Downloader) { d.PartSize = partBytes })
	count, err := downloader.Download(ctx, buffer, &s3.GetObjectInput{
		Bucket: bucket, Key: aws.String("dir/large"),
	})
	check(err)
	require(count == int64(len(large)) && bytes.Equal(buffer.Bytes(), large), "another body came back")

	for number := range 5 {
		_, err = client.PutObject(ctx, &s3.PutObjectInput{
			Bucket: bucket, Key: aws.String(fmt.Sprintf("many/%d", number)),
			Body: strings.NewReader("x"), IfNoneMatch: aws.String("*"),
		})
		check(err)
	}
	_, err = client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: bucket, Key: aws.String("many/0"), Body: strings.NewReader("y"),
		IfNoneMatch: aws.String("*"),
	})
	require(err != nil && strings.Contains(err.Error(), "PreconditionFailed"), "%v", err)

	var keys []types.ObjectIdentifier
	pages := s3.NewListObjectsV2Paginator(client, &s3.ListObjectsV2Input{
		Bucket: bucket, MaxKeys: aws.Int32(2),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		check(err)
		for _, object := range page.Contents {
			keys = append(keys, types.ObjectIdentifier{Key: object.Key})
		}
	}
	require(len(keys) == 7, "%d keys are listed", len(keys))

	presigned, err := s3.NewPresignClient(client).PresignGetObject(ctx, &s3.GetObjectInput{
		Bucket: bucket, Key: aws.String("many/1"),
	}, s3.WithPresignExpires(time.Minute))
	check(err)
	response, err := http.Get(presigned.URL)
	check(err)
	data, err := io.ReadAll(response.Body)
	check(err)
	require(response.StatusCode == 200 && string(data) == "x", "%d %s", response.StatusCode, data)

	deleted, err := client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: bucket, Delete: &types.Delete{Objects: keys},
	})
	check(err)
	require(len(deleted.Deleted) == 7 && len(deleted.Errors) == 0, "%v", deleted.Errors)
	_, err = client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String("many/1")})
	var missing *types.NotFound
	require(errors.As(err, &missing), "%v", err)
	_, err = client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: bucket})
	check(err)
}
