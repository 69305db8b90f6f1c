//! Sending, and bookmarks to send from.

use std::io::Write;
use std::sync::Arc;

use engine::Opaque;
use engine::capabilities::Sending;
use engine::dataset::{DatasetErrorKind, DatasetRef};
use engine::transfer::{Base, Bookmark, ResumeToken, SendSpec, TransferError, TransferErrorKind};
use units::{SnapshotName, VolumeName};

use crate::image::Image;
use crate::state::{MemoryPool, State};
use crate::stream::{self, Begin, Rest, Writer};
use crate::tree::{Dataset, Found, Mark, Snapshot};

/// The contents to send, captured while the pool was locked.
struct Plan {
    begin: Begin,
    to: Arc<Image>,
    from: Option<Arc<Image>>,
}

impl Plan {
    /// Numbers of the blocks to send, in order; entries without a block are removed blocks.
    fn blocks(&self) -> Vec<(u64, Option<Arc<[u8]>>)> {
        let is_new = |number: u64, block: &Arc<[u8]>| {
            let from = self.from.as_ref();
            !from.is_some_and(|from| from.has(number, block))
        };
        let written = self
            .to
            .blocks
            .iter()
            .filter(|(number, block)| is_new(**number, block));
        let written = written.map(|(number, block)| (*number, Some(Arc::clone(block))));
        let before = self.from.iter().flat_map(|from| from.blocks.keys());
        let gone = before.filter(|number| !self.to.blocks.contains_key(number));
        let mut all: Vec<_> = written.chain(gone.map(|number| (*number, None))).collect();
        all.sort_by_key(|(number, _)| *number);
        all.retain(|(number, _)| *number >= self.begin.rest_from.unwrap_or(0));
        all
    }

    fn write(&self, to: &mut dyn Write) -> std::io::Result<u64> {
        let mut writer = Writer::new(to);
        writer.begin(&self.begin)?;
        for (number, block) in self.blocks() {
            match block {
                Some(block) => writer.written(number, &block)?,
                None => writer.freed(number)?,
            }
        }
        writer.end()?;
        Ok(writer.bytes)
    }
}

/// A possible base of a send.
struct Start {
    guid: u64,
    image: Arc<Image>,
    is_origin: bool,
}

impl State {
    fn snapshot(&self, name: &SnapshotName) -> Result<(&Dataset, &Snapshot), DatasetErrorKind> {
        match self.tree.find(name.as_str())? {
            Found::Snapshot(of, snapshot) => Ok((of, snapshot)),
            Found::Head(_) => Err(DatasetErrorKind::NotFound),
        }
    }

    /// Resolves `base` for a send of `snapshot` of `dataset`.
    fn start(
        &self,
        base: &str,
        dataset: &Dataset,
        snapshot: &Snapshot,
    ) -> Result<Start, TransferErrorKind> {
        let missing = TransferErrorKind::Dataset(DatasetErrorKind::NotFound);
        let (head, tag) = base
            .split_once(['@', '#'])
            .ok_or(TransferErrorKind::NotAncestor)?;
        let of = self.tree.datasets.get(head).ok_or(missing.clone())?;
        if base.contains('#') {
            let mark = of.bookmarks.get(tag).ok_or(missing)?;
            return match of.guid == dataset.guid && mark.txg < snapshot.txg {
                true => Ok(Start {
                    guid: mark.guid,
                    image: Arc::clone(&mark.image),
                    is_origin: false,
                }),
                false => Err(TransferErrorKind::NotAncestor),
            };
        }
        let start = of.snapshot(tag).ok_or(missing)?;
        let is_origin = dataset.origin == Some(start.guid);
        let is_earlier = of.guid == dataset.guid && start.txg < snapshot.txg;
        match is_origin || is_earlier {
            true => Ok(Start {
                guid: start.guid,
                image: Arc::clone(&start.image),
                is_origin,
            }),
            false => Err(TransferErrorKind::NotAncestor),
        }
    }

    fn plan(&self, spec: &SendSpec) -> Result<Plan, TransferErrorKind> {
        let (dataset, snapshot) = self
            .snapshot(&spec.snapshot)
            .map_err(TransferErrorKind::Dataset)?;
        let volume = spec.snapshot.volume();
        let start = spec
            .base
            .as_ref()
            .map(|base| self.start(base.as_str(), dataset, snapshot));
        let start = start.transpose()?;
        let encryption = dataset
            .encryption
            .as_ref()
            .filter(|_| spec.form.raw)
            .map(|key| {
                let mut key = key.clone();
                key.own = self
                    .tree
                    .key_of(volume.as_str())
                    .map(|(_, own)| own.clone());
                key
            });
        let block_size = snapshot.image.block_size;
        Ok(Plan {
            begin: Begin {
                to_guid: snapshot.guid,
                from_guid: start.as_ref().map_or(0, |start| start.guid),
                to_name: spec.snapshot.to_string(),
                size: snapshot.image.size,
                block_size,
                is_clone: start.as_ref().is_some_and(|start| start.is_origin),
                rest_from: spec
                    .resume
                    .as_ref()
                    .map(|from| from.get::<u64>() / block_size.max(1)),
                encryption,
            },
            to: Arc::clone(&snapshot.image),
            from: start.map(|start| start.image),
        })
    }
}

impl Sending for MemoryPool {
    fn format(&self) -> &'static str {
        stream::FORMAT
    }

    fn send(&self, spec: &SendSpec, to: &mut dyn Write) -> Result<u64, TransferError> {
        const DOING: &str = "send";
        let state = self.begin_transfer("send", DOING, (&spec.snapshot).into())?;
        let name = spec.snapshot.as_str();
        let fail = |kind| TransferError::new(DOING, name, kind);
        let plan = state.plan(spec).map_err(fail)?;
        if state.tree.is_locked(spec.snapshot.volume().as_str()) && !spec.form.raw {
            let kind = TransferErrorKind::Dataset(DatasetErrorKind::KeyMissing);
            return Err(fail(kind));
        }
        drop(state);
        plan.write(to).map_err(|error| TransferError {
            cause: Some(Box::new(error)),
            ..TransferError::new(DOING, name, TransferErrorKind::Sink)
        })
    }

    fn send_estimate(&self, spec: &SendSpec) -> Result<u64, TransferError> {
        const DOING: &str = "send";
        let state = self.begin_transfer("send_estimate", DOING, (&spec.snapshot).into())?;
        let whole = SendSpec {
            resume: None,
            ..spec.clone()
        };
        let plan = state.plan(&whole);
        let plan = plan.map_err(|kind| TransferError::new(DOING, spec.snapshot.as_str(), kind))?;
        Ok(plan
            .write(&mut std::io::sink())
            .expect("a sink accepts all data"))
    }

    fn parse_token(&self, text: &str) -> Result<ResumeToken, TransferError> {
        stream::parse_token(text)
    }

    fn resumed_send(&self, token: &ResumeToken) -> Result<SendSpec, TransferError> {
        let state = self.begin_transfer("resumed_send", "send", (&self.name).into())?;
        let gone = || {
            let kind = TransferErrorKind::TokenSnapshotGone;
            TransferError::new("send", &token.to_name, kind)
        };
        let named = |guid: u64| {
            let (of, snapshot) = state.tree.snapshot_by_guid(guid)?;
            format!("{of}@{}", snapshot.tag)
                .parse::<SnapshotName>()
                .ok()
        };
        let snapshot = named(token.to_guid).ok_or_else(gone)?;
        let rest = token.detail.get::<Rest>();
        let base = match rest.from_guid {
            0 => None,
            guid => match named(guid) {
                Some(base) => Some(Base::from(&base)),
                None => Some(state.mark(&snapshot.volume(), guid).ok_or_else(gone)?),
            },
        };
        Ok(SendSpec {
            snapshot,
            base,
            form: rest.form(),
            resume: Some(Opaque::new(rest.offset)),
        })
    }

    fn bookmark_of(&self, volume: &VolumeName, guid: u64) -> Result<Option<Base>, TransferError> {
        let state = self.begin_transfer("bookmark_of", "list", volume.into())?;
        Ok(state.mark(volume, guid))
    }

    fn bookmarks(&self, volume: &VolumeName) -> Result<Vec<Bookmark>, TransferError> {
        let state = self.begin_transfer("bookmarks", "list", volume.into())?;
        let fail =
            |kind| TransferError::new("list", volume.as_str(), TransferErrorKind::Dataset(kind));
        let dataset = state.tree.get(volume.as_str()).map_err(fail)?;
        let named = dataset.bookmarks.iter().map(|(tag, mark)| Bookmark {
            name: format!("{volume}#{tag}"),
            guid: mark.guid,
            creation_txg: mark.txg,
            creation_time_s: mark.time_s,
        });
        Ok(named.collect())
    }

    fn create_bookmark(&self, snapshot: &SnapshotName, mark: &str) -> Result<(), TransferError> {
        const DOING: &str = "bookmark";
        let mut state = self.begin_transfer("create_bookmark", DOING, snapshot.into())?;
        let fail = |kind| TransferError::new(DOING, mark, TransferErrorKind::Dataset(kind));
        let volume = snapshot.volume();
        if Base::parse(&volume, &format!("#{mark}")).is_err() {
            return Err(fail(DatasetErrorKind::BookmarkName));
        }
        let (_, found) = state.snapshot(snapshot).map_err(fail)?;
        let made = Mark {
            guid: found.guid,
            txg: found.txg,
            time_s: found.time_s,
            image: Arc::clone(&found.image),
        };
        let dataset = state.tree.get_mut(volume.as_str()).map_err(fail)?;
        if dataset.bookmarks.contains_key(mark) {
            return Err(fail(DatasetErrorKind::Exists));
        }
        dataset.bookmarks.insert(mark.to_owned(), made);
        Ok(())
    }

    fn destroy_bookmark(&self, mark: &Bookmark) -> Result<(), TransferError> {
        const DOING: &str = "destroy";
        let head = mark.name.split('#').next().unwrap_or_default();
        let of = DatasetRef::from_checked(head);
        let mut state = self.begin_transfer("destroy_bookmark", DOING, of)?;
        let fail = |kind| TransferError::new(DOING, &mark.name, TransferErrorKind::Dataset(kind));
        let dataset = state.tree.get_mut(head).map_err(fail)?;
        // A missing one is no error.
        dataset.bookmarks.remove(mark.tag());
        Ok(())
    }
}

impl State {
    fn mark(&self, volume: &VolumeName, guid: u64) -> Option<Base> {
        let dataset = self.tree.datasets.get(volume.as_str())?;
        let (tag, _) = dataset
            .bookmarks
            .iter()
            .find(|(_, mark)| mark.guid == guid)?;
        Base::parse(volume, &format!("#{tag}")).ok()
    }
}
