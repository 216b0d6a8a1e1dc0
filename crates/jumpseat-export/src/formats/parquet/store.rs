//! Where files go: a directory, or a bucket of an object store. A file is there as a whole or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as Key;
use object_store::{ObjectStoreExt, PutPayload};
use pcp_files::{FileError, Replacement};
use tokio::runtime::{Builder, Runtime};

use crate::formats::error::ExportError;

/// A part of an upload: stores take none below 5 MiB, but for the last one.
const PART: usize = 8 << 20;

/// What is written at once.
const PORTION: usize = 1 << 20;

/// Where files go.
#[derive(Clone)]
pub(super) enum Store {
    /// Below a directory.
    Local(PathBuf),
    /// Below a prefix in a bucket.
    S3(Arc<Bucket>),
}

/// A bucket.
pub(super) struct Bucket {
    store: AmazonS3,
    url: String,
    prefix: Key,
    runtime: Runtime,
}

impl Store {
    /// A directory, which is made if need be, or `s3://BUCKET/PREFIX`. Who asks a bucket, and where it is, says the environment as
    /// it does for all programs of AWS.
    pub(super) fn open(target: &str) -> Result<Store, ExportError> {
        let Some(rest) = target.strip_prefix("s3://") else {
            let path = PathBuf::from(target);
            fs::create_dir_all(&path).map_err(ExportError::write(&path))?;
            return Ok(Store::Local(path));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(ExportError::Usage(format!("--parquet {target}: write s3://BUCKET/PREFIX")));
        }
        let failed = |error| ExportError::Store { url: target.to_owned(), error };
        // As the rest of jumpseat: one provider of cryptography, if none has been chosen.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Whoever names an end point without TLS means it.
        let plain = std::env::var("AWS_ENDPOINT_URL").is_ok_and(|url| url.starts_with("http://"));
        let store = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_allow_http(plain)
            .build()
            .map_err(failed)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ExportError::write(Path::new(target)))?;
        let prefix = Key::parse(prefix).map_err(|error| failed(error.into()))?;
        Ok(Store::S3(Arc::new(Bucket { store, url: format!("s3://{bucket}"), prefix, runtime })))
    }

    /// Begins a file, by its path below the store.
    pub(super) fn begin(&self, path: &str) -> Sink {
        Sink { store: self.clone(), path: path.to_owned(), buffer: Vec::new(), spool: None }
    }

    /// Removes a file that there may be.
    pub(super) fn remove(&self, path: &str) -> Result<bool, ExportError> {
        match self {
            Store::Local(dir) => {
                let path = dir.join(path);
                match fs::remove_file(&path) {
                    Ok(()) => Ok(true),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                    Err(error) => Err(ExportError::Write { path, error }),
                }
            }
            Store::S3(bucket) => {
                let key = bucket.key(path);
                let removed = bucket.runtime.block_on(async {
                    match bucket.store.head(&key).await {
                        Ok(_) => bucket.store.delete(&key).await.map(|()| true),
                        Err(object_store::Error::NotFound { .. }) => Ok(false),
                        Err(error) => Err(error),
                    }
                });
                removed.map_err(|error| bucket.failed(&key, error))
            }
        }
    }
}

impl Bucket {
    fn key(&self, path: &str) -> Key {
        let below = Key::parse(path).unwrap_or_else(|_| Key::from(path));
        Key::from_iter(self.prefix.parts().chain(below.parts()))
    }

    fn failed(&self, key: &Key, error: object_store::Error) -> ExportError {
        ExportError::Store { url: format!("{}/{key}", self.url), error }
    }
}

/// A file that is being written. It gets its name when it is whole; until then it is a file without one, or with one that no
/// reader looks for.
pub(super) struct Sink {
    store: Store,
    path: String,
    buffer: Vec<u8>,
    spool: Option<Spool>,
}

/// What of a file is not in memory.
enum Spool {
    /// Will be the file.
    Named(Replacement),
    /// Will be sent.
    Unnamed(File),
}

impl Sink {
    /// Bytes in memory.
    pub(super) fn held(&self) -> usize {
        self.buffer.len()
    }

    /// Whether it goes below a directory: what is on the disk then need not be read again.
    pub(super) fn is_local(&self) -> bool {
        matches!(self.store, Store::Local(_))
    }

    /// Moves what is in memory to the disk.
    pub(super) fn spill(&mut self) -> io::Result<()> {
        let spool = match &mut self.spool {
            Some(spool) => spool,
            None => self.spool.insert(match &self.store {
                Store::Local(dir) => Spool::Named(named(&dir.join(&self.path))?),
                Store::S3(_) => Spool::Unnamed(tempfile::tempfile()?),
            }),
        };
        let file = match spool {
            Spool::Named(replacement) => replacement.file(),
            Spool::Unnamed(file) => file,
        };
        file.write_all(&self.buffer)?;
        self.buffer = Vec::new();
        Ok(())
    }

    /// Makes the directory that it will be in.
    pub(super) fn prepare(&self) -> Result<(), ExportError> {
        let (Store::Local(dir), None) = (&self.store, &self.spool) else { return Ok(()) };
        let path = dir.join(&self.path);
        path.parent().map_or(Ok(()), fs::create_dir_all).map_err(ExportError::write(&path))
    }

    /// Gives it its name.
    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        if let Store::S3(bucket) = &self.store {
            let bucket = Arc::clone(bucket);
            let key = bucket.key(&self.path);
            return bucket
                .runtime
                .block_on(self.send(&bucket, &key))
                .map_err(|error| bucket.failed(&key, error));
        }
        let Store::Local(dir) = &self.store else { return Ok(()) };
        let path = dir.join(&self.path);
        self.spill().map_err(ExportError::write(&path))?;
        match self.spool.take() {
            // An export can be made again: it does not wait for each of its files to be on disk.
            Some(Spool::Named(replacement)) => replacement
                .finish_unsynced()
                .map(drop)
                .map_err(|error| ExportError::write(&path)(plain(error))),
            _ => Ok(()),
        }
    }

    /// Sends it: at once if it fits into a part, else in parts, which become an object when all are there.
    async fn send(&mut self, bucket: &Bucket, key: &Key) -> object_store::Result<()> {
        let failed = |error: io::Error| object_store::Error::Generic { store: "S3", source: error.into() };
        let Some(Spool::Unnamed(mut file)) = self.spool.take() else {
            let whole = std::mem::take(&mut self.buffer);
            return bucket.store.put(key, PutPayload::from(whole)).await.map(drop);
        };
        file.write_all(&self.buffer).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(failed)?;
        let mut upload = bucket.store.put_multipart(key).await?;
        let sent = async {
            loop {
                let mut part = Vec::with_capacity(PART);
                (&mut file).take(PART as u64).read_to_end(&mut part).map_err(failed)?;
                if part.is_empty() {
                    return upload.complete().await.map(drop);
                }
                upload.put_part(PutPayload::from(part)).await?;
            }
        };
        match sent.await {
            Ok(()) => Ok(()),
            Err(error) => {
                // The first error is the one to tell; stores forget parts that nobody completes.
                let _ = upload.abort().await;
                Err(error)
            }
        }
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PORTION && self.spool.is_some() {
            self.spill()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file that will have a name, in a directory that is made if need be.
fn named(path: &Path) -> io::Result<Replacement> {
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir)?;
    }
    Replacement::begin(path).map_err(plain)
}

fn plain(error: FileError) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}
