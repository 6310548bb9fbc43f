//! A disk for tests: it loses power at any byte, forgets what was not synced, and fills up.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::disk::{Access, Disk, OpenFile, Pulse};

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
    /// Pulses that are there, and whether they beat.
    pulses: BTreeMap<String, Weak<()>>,
    /// Pulses that may be found when the power comes back: all that were not removed for good.
    left: BTreeSet<String>,
    /// Whether no pulse can be started or removed: a folder that nobody may write in.
    locked: bool,
}

/// A pulse that beats until it is dropped.
#[derive(Debug)]
struct Beat(#[expect(dead_code, reason = "it is there or not")] Arc<()>);

impl Pulse for Beat {}

/// A state of the disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Moment {
    durable: Option<Vec<u8>>,
    cached: Option<Vec<u8>>,
    /// What was last told.
    pub(super) told: usize,
    pub(super) pulses: BTreeSet<String>,
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
            pulses: BTreeMap::new(),
            left: BTreeSet::new(),
            locked: false,
        })))
    }

    /// A disk as it is found after a failure of power: this file, and pulses that nobody holds.
    pub(super) fn after_crash(file: Option<Vec<u8>>, pulses: &BTreeSet<String>) -> Self {
        let shelf = Self::new(file);
        let dead = pulses.iter().map(|nonce| (nonce.clone(), Weak::new()));
        shelf.state().pulses = dead.collect();
        shelf.state().left = pulses.clone();
        shelf
    }

    /// From now on no pulse can be started or removed.
    pub(super) fn lock_folder(&self) {
        self.state().locked = true;
    }

    /// How many bytes still fit.
    pub(super) fn leave_room(&self, bytes: usize) {
        self.state().room = bytes;
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

    /// The file as processes see it.
    pub(super) fn file(&self) -> Option<Vec<u8>> {
        self.state().cached.clone()
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
            pulses: self.left.clone(),
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

    /// A file that is made here is under its name at once.
    fn sync_place(&self) -> io::Result<()> {
        Ok(())
    }

    fn start_pulse(&self, nonce: &str) -> io::Result<Box<dyn Pulse>> {
        let mut state = self.state();
        if state.locked {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let beat = Arc::new(());
        let pulse = Arc::downgrade(&beat);
        state.pulses.insert(nonce.to_owned(), pulse);
        state.left.insert(nonce.to_owned());
        Ok(Box::new(Beat(beat)))
    }

    fn pulse_stopped(&self, nonce: &str) -> bool {
        let state = self.state();
        let pulse = state.pulses.get(nonce);
        pulse.is_some_and(|pulse| pulse.strong_count() == 0)
    }

    fn remove_pulse(&self, nonce: &str) -> io::Result<()> {
        let mut state = self.state();
        if state.locked {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        // Gone from sight first, and for good a moment later.
        let found = state.pulses.remove(nonce);
        state.pass();
        state.left.remove(nonce);
        state.pass();
        found.map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn pulses(&self) -> io::Result<Vec<String>> {
        Ok(self.state().pulses.keys().cloned().collect())
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
