//! One tracing source: its records, what has become of its input, and what is let through.

use std::sync::Arc;

use jumpseat_log::{LogDir, SourceLog};
use jumpseat_source::delivery::Peer;
use jumpseat_source::ledger::{self, Sums};
use jumpseat_source::origin::Labels;
use jumpseat_source::registry::{Described, WellKnown};
use jumpseat_source::rules::SourceRule;
use jumpseat_source::{Cause, Delivery, Gate, Origin, Reason, Tallies};
use pcp_event::Work;
use pcp_event::log::{EventLog, LogConfig};
use pcp_model::{Inst, Timestamp};
use pcp_net::{Identity, Who};

use crate::config::EventsConfig;

use super::spans::SourceSpans;

/// One tracing source.
pub(crate) struct Source {
    /// Its name, which is that of its instance.
    pub name: Arc<str>,
    /// The records.
    pub log: EventLog,
    /// Their files, if they are kept on disk.
    pub disk: Option<Arc<SourceLog>>,
    /// What has become of its input.
    pub account: Account,
    /// The spans that are open, once it has sent anything that begins or ends one.
    pub spans: Option<Box<SourceSpans>>,
    /// Who sends, and from where.
    pub sender: Sender,
    /// What it lets through. Shared with the threads that take its input in.
    pub gate: Arc<Gate>,
    /// What clients have stored, in place of what the configuration says.
    pub stored: SourceRule,
    /// Who may read the records, if not everybody.
    pub readers: Option<Who>,
    /// Most memory for its records, in bytes; 0: no limit of its own.
    pub budget: u64,
    /// The configuration names it.
    pub named: bool,
    /// How much memory it had use for when memory was last shared out, in bytes.
    pub wanted: u64,
    /// Something has come from it since the start.
    pub active: bool,
}

/// Events of a source by what has become of them, since the start: that of its log, if it has one on disk.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Events sent, those lost before the log included.
    pub received: u64,
    /// Events lost before the log.
    pub missed: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Events refused as malformed.
    pub malformed: u64,
    /// Events refused because of their size.
    pub oversized: u64,
    /// Events refused, by reason.
    pub rejected: [u64; Reason::COUNT],
    /// Events dropped because somebody asked for it.
    pub dropped: [u64; Cause::COUNT],
    /// Events with a time too far ahead.
    pub future: u64,
    /// Events with a time too far behind.
    pub past: u64,
    /// Events that came too late to be put in order.
    pub late: u64,
    /// Records that were there already when they were sent or read again.
    pub repeated: u64,
    /// Events with something cut.
    pub truncated: u64,
    /// Records delivered, over all streams that ever were.
    pub delivered: u64,
    /// Time of the newest event.
    pub last_time: Option<Timestamp>,
}

/// What is known of who sends.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// The process that sent last.
    pub peer: Option<Peer>,
    /// Where the source reads, once it is known.
    pub origin: Option<Box<Origin>>,
    /// What else its sender says of itself, for labels.
    pub labels: Option<Box<Labels>>,
}

impl Source {
    /// Whether a client may read the records.
    pub(crate) fn may_be_read_by(&self, client: Identity) -> bool {
        self.readers.as_ref().is_none_or(|readers| readers.includes(client))
    }

    /// Within it sequence numbers of its records mean the same. `in_memory`: that of records that are in memory only.
    pub(crate) fn epoch(&self, in_memory: u64) -> u64 {
        self.disk.as_ref().map_or(in_memory, |disk| disk.epoch())
    }

    /// What a sequence number of an epoch is now; `None` if that epoch is unknown.
    pub(crate) fn translate(&self, seq: u64, epoch: u64, in_memory: u64) -> Option<u64> {
        match &self.disk {
            Some(disk) => disk.translate(seq, epoch),
            None => (epoch == in_memory).then_some(seq),
        }
    }

    /// A source that has sent nothing yet in this life of the agent. `logs`: where its records are on disk, under which number.
    pub(crate) fn new(
        name: Arc<str>,
        limits: &EventsConfig,
        domain: u16,
        gate: Arc<Gate>,
        logs: Option<(&Arc<LogDir>, Inst)>,
    ) -> Source {
        let config = LogConfig {
            // Its share comes with its first records.
            budget: 0,
            recent: limits.recent as usize,
            missed_pmid: WellKnown::Missed.pmid(domain),
        };
        let disk = logs.map(|(logs, inst)| (logs, logs.source(inst, &name)));
        let (mut log, account) = match &disk {
            Some((logs, disk)) => {
                let (next, state) = disk.begun();
                (
                    EventLog::with_history(config, next, disk.newest(), logs.history(disk)),
                    Account::of(&ledger::sums(state)),
                )
            }
            None => (EventLog::new(config), Account::default()),
        };
        // Given for each fetch and each turn of taking in deliveries.
        log.set_work(Work::new(0));
        Source {
            name,
            log,
            disk: disk.map(|(_, disk)| disk),
            account,
            spans: None,
            sender: Sender::default(),
            gate,
            stored: SourceRule::default(),
            readers: None,
            budget: 0,
            named: false,
            wanted: 0,
            active: false,
        }
    }

    /// Most memory for its records, whatever there is.
    pub(crate) fn most(&self, limits: &EventsConfig) -> u64 {
        // A source's own limit only lowers what it gets: the total must hold.
        let own = if self.budget == 0 { u64::MAX } else { self.budget };
        limits.source_budget.0.min(own)
    }

    /// How it is: `disabled`, `active`, or `silent` if nothing has come from it since the start.
    pub(crate) fn phase(&self) -> &'static str {
        match (self.gate.settings().1.enabled, self.active) {
            (false, _) => "disabled",
            (true, true) => "active",
            (true, false) => "silent",
        }
    }

    /// Enters what was lost before the records of a delivery, and what was counted on the way.
    pub(crate) fn enter(&mut self, delivery: &Delivery) {
        let account = &mut self.account;
        let mut lost_here = 0;
        if let Some(loss) = delivery.missed {
            // What a sender says it lost itself was sent, though it never arrived here. Not all of an absurd
            // number is believed, so that the log's count is the one that balances.
            let believed = self.log.append_missed(loss.count, loss.time);
            account.missed += believed;
            account.received += believed;
            lost_here = loss.received;
        }
        account.enter(&delivery.tallies, lost_here);
        account.last_time = delivery.batch.last_time().max(account.last_time);
    }
}

impl Account {
    /// What a log on disk says of lives before.
    fn of(sums: &Sums) -> Account {
        let Sums { missed, delivered, ref tallies, .. } = *sums;
        let mut account = Account { received: missed, missed, delivered, ..Account::default() };
        account.enter(tallies, 0);
        account
    }

    /// `lost_here`: those received that are counted with the loss before the batch already.
    fn enter(&mut self, tallies: &Tallies, lost_here: u64) {
        debug_assert!(lost_here <= tallies.received, "what is lost here was received");
        self.received += tallies.received - lost_here;
        self.bytes += tallies.bytes;
        self.truncated += tallies.truncated;
        self.future += tallies.future;
        self.past += tallies.past;
        self.late += tallies.late;
        self.repeated += tallies.repeated;
        add(&mut self.dropped, &tallies.dropped);
        add(&mut self.rejected, &tallies.rejected);
        // The same once more, as the two sums that are looked at first.
        for (reason, count) in Reason::ALL.iter().zip(tallies.rejected) {
            match reason {
                Reason::OversizeLine | Reason::OversizeField => self.oversized += count,
                _ => self.malformed += count,
            }
        }
    }
}

impl Sender {
    /// Takes over what is known from before the first delivery.
    pub(crate) fn remember(&mut self, Described { origin, labels }: Described) {
        self.origin = origin.map(Box::new);
        self.labels = labels.map(Box::new);
    }

    /// Takes over what a delivery says that is news. Whether labels made of it are others now.
    pub(crate) fn update(&mut self, delivery: &mut Delivery) -> bool {
        // Of connections that tell no peer, TCP ones, the last one that did stays.
        self.peer = delivery.peer.or(self.peer);
        let mut changed = false;
        if delivery.origin.is_some() && delivery.origin != self.origin {
            self.origin = delivery.origin.take();
            changed = true;
        }
        if delivery.labels.is_some() && delivery.labels != self.labels {
            self.labels = delivery.labels.take();
            changed = true;
        }
        changed
    }
}

fn add<const N: usize>(sums: &mut [u64; N], news: &[u64; N]) {
    sums.iter_mut().zip(news).for_each(|(sum, new)| *sum += new);
}
