"""Makes a bucket, or compares what is in one with a directory: bucket.py make BUCKET | compare BUCKET PREFIX DIR."""

import os
import sys

import boto3

s3 = boto3.client("s3")
if sys.argv[1] == "make":
    s3.create_bucket(Bucket=sys.argv[2])
else:
    bucket, prefix, local = sys.argv[2:]
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix + "/")
    there = {item["Key"].removeprefix(prefix + "/") for page in pages for item in page.get("Contents", [])}
    here = {os.path.relpath(os.path.join(dir, name), local) for dir, _, names in os.walk(local) for name in names}
    assert there == here and here, there ^ here
    for name in here:
        body = s3.get_object(Bucket=bucket, Key=f"{prefix}/{name}")["Body"].read()
        assert body == open(os.path.join(local, name), "rb").read(), name
