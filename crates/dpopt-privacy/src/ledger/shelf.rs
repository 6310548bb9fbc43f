//! A disk for tests: it loses power at any byte, forgets what was not synced, and fills up.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{Access, Disk, OpenFile};

/// One file on a disk. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Shelf(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// What survives for certain.
    durable: Option<Vec<u8>>,
    /// What processes see.
    cached: Option<Vec<u8>>,
    /// The past, where it is recorded: what there was at each moment at which the power could
    /// have failed.
    moments: Option<Vec<Moment>>,
    /// Bytes that still fit.
    room: usize,
    /// Whether syncing is put off.
    lazy: bool,
    /// Times that the file is opened until the sync that was put off.
    owes_sync: u32,
    /// How much had happened outside; see [`Shelf::tell`].
    told: usize,
}

/// A state of the disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Moment {
    durable: Option<Vec<u8>>,
    cached: Option<Vec<u8>>,
    /// What was last told.
    pub(super) told: usize,
}

impl Shelf {
    /// A disk with this file on it.
    pub(super) fn new(file: Option<Vec<u8>>) -> Self {
        Self(Arc::new(Mutex::new(State {
            durable: file.clone(),
            cached: file,
            moments: None,
            room: usize::MAX,
            lazy: false,
            owes_sync: 0,
            told: 0,
        })))
    }

    /// A disk on which so many bytes fit.
    pub(super) fn with_room(room: usize) -> Self {
        let shelf = Self::new(None);
        shelf.state().room = room;
        shelf
    }

    /// An empty disk that records its past.
    pub(super) fn recording() -> Self {
        let shelf = Self::new(None);
        shelf.state().moments = Some(Vec::new());
        shelf
    }

    /// The same, but it says that it synced, and does so a little later.
    pub(super) fn lazy() -> Self {
        let shelf = Self::recording();
        shelf.state().lazy = true;
        shelf
    }

    pub(super) fn make_room(&self) {
        self.state().room = usize::MAX;
    }

    /// Says that so much has happened outside; later moments remember it.
    pub(super) fn tell(&self, told: usize) {
        let mut state = self.state();
        state.told = told;
        state.pass();
    }

    /// What there was at each moment so far.
    pub(super) fn moments(&self) -> Vec<Moment> {
        self.state().moments.clone().unwrap_or_default()
    }

    /// Length of the file.
    pub(super) fn bytes(&self) -> usize {
        self.state().cached.as_ref().map_or(0, Vec::len)
    }

    /// What there is now.
    pub(super) fn now(&self) -> Moment {
        self.state().moment()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Moment {
    /// What may be found when the power comes back after a failure at this moment, and whether
    /// only the end is missing (and there is no hole).
    pub(super) fn images(&self) -> Vec<(Option<Vec<u8>>, bool)> {
        let mut images = vec![(self.durable.clone(), true), (self.cached.clone(), true)];
        if let (Some(durable), Some(cached)) = (&self.durable, &self.cached)
            && cached.starts_with(durable)
        {
            // Written are all bytes so far (the moments are one for each byte), or only the
            // length and the blocks of one side of the middle.
            let middle = durable.len().midpoint(cached.len());
            for zeros in [durable.len()..middle, middle..cached.len()] {
                let mut hole = cached.clone();
                hole[zeros].fill(0);
                images.push((Some(hole), false));
            }
        }
        images
    }
}

impl State {
    fn moment(&self) -> Moment {
        Moment {
            durable: self.durable.clone(),
            cached: self.cached.clone(),
            told: self.told,
        }
    }

    /// A moment passes at which the power could have failed.
    fn pass(&mut self) {
        let moment = self.moments.is_some().then(|| self.moment());
        self.moments
            .iter_mut()
            .for_each(|past| past.extend(moment.clone()));
    }
}

impl Disk for Shelf {
    fn create(&self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        if state.cached.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        state.pass();
        if bytes.len() > state.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.room -= bytes.len();
        state.cached = Some(bytes.to_vec());
        state.pass();
        state.durable = Some(bytes.to_vec());
        state.pass();
        Ok(())
    }

    fn open(&self, _: Access) -> io::Result<Box<dyn OpenFile>> {
        let mut state = self.state();
        if state.owes_sync > 0 {
            state.owes_sync -= 1;
            if state.owes_sync == 0 {
                state.durable = state.cached.clone();
                state.pass();
            }
        }
        match state.cached {
            Some(_) => Ok(Box::new(self.clone())),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl OpenFile for Shelf {
    fn read(&mut self, from: u64) -> io::Result<Vec<u8>> {
        let state = self.state();
        let bytes = state.cached.as_deref().unwrap_or_default();
        Ok(bytes.get(from as usize..).unwrap_or_default().to_vec())
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.state();
        if let Some(bytes) = &mut state.cached {
            bytes.truncate(len as usize);
        }
        state.pass();
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        for byte in bytes {
            if state.room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            state.room -= 1;
            state.cached.get_or_insert_default().push(*byte);
            state.pass();
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.state();
        if state.lazy {
            state.owes_sync = 3;
        } else {
            state.durable = state.cached.clone();
        }
        state.pass();
        Ok(())
    }
}
