use std::collections::HashMap;
use std::sync::Mutex;

const CAPACITY: usize = 1024;

#[derive(Debug, Clone)]
pub struct Entry {
    key: String,
    hits: u64,
}

pub enum Policy { Lru, Fifo }

pub trait Cache {
    fn get(&self, key: &str) -> Option<Entry>;
}

pub(crate) struct Shared { inner: Mutex<HashMap<String, Entry>> }

impl Cache for Shared {
    fn get(&self, key: &str) -> Option<Entry> {
        self.inner.lock().unwrap().get(key).cloned()
    }
}

pub fn open(policy: Policy) -> Shared {
    Shared { inner: Mutex::new(HashMap::new()) }
}

mod tests;
