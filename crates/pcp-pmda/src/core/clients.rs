//! The table of client contexts.

use crate::call::{Attributes, ClientId};

#[derive(Debug, Default)]
pub(super) struct Clients {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    live: bool,
    attributes: Attributes,
}

impl Clients {
    pub(super) fn open(&mut self) -> ClientId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        // A free slot is a place in the table.
        let entry = &mut self.slots[slot as usize];
        entry.live = true;
        ClientId { slot, generation: entry.generation }
    }

    /// Whether the client was there.
    pub(super) fn close(&mut self, client: ClientId) -> bool {
        let Some(entry) = self.live(client) else { return false };
        entry.live = false;
        entry.generation = entry.generation.wrapping_add(1);
        entry.attributes = Attributes::default();
        self.free.push(client.slot);
        true
    }

    pub(super) fn attributes(&self, client: ClientId) -> Option<&Attributes> {
        let entry = self.slots.get(client.slot as usize)?;
        (entry.live && entry.generation == client.generation).then_some(&entry.attributes)
    }

    pub(super) fn attributes_mut(&mut self, client: ClientId) -> Option<&mut Attributes> {
        self.live(client).map(|entry| &mut entry.attributes)
    }

    pub(super) fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn live(&mut self, client: ClientId) -> Option<&mut Slot> {
        let entry = self.slots.get_mut(client.slot as usize)?;
        (entry.live && entry.generation == client.generation).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recycled_slot_is_another_client_without_attributes() {
        let mut clients = Clients::default();
        let first = clients.open();
        clients.attributes_mut(first).unwrap().uid = Some(7);
        assert!(clients.close(first));
        assert!(!clients.close(first));
        let second = clients.open();
        assert_eq!(second.slot, first.slot);
        assert_ne!(second, first);
        assert_eq!(clients.attributes(second), Some(&Attributes::default()));
        assert_eq!(clients.attributes(first), None);
        assert_eq!(clients.count(), 1);
    }
}
