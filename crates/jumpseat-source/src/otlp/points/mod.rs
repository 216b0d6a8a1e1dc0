//! Metrics: data points of a request become values of [`crate::series`].
//!
//! * `point`: a data point of any kind as it is in the body; `buckets`: those of histograms; `labels`: what tells series apart;
//!   `stream`: the metric of one resource and scope, `groups`: with what is known of its series; here: the way down to them.
//!
//! **Cost:** a point whose attributes are the bytes of the last time is decoded once, found by comparing these bytes, and set: no
//! allocation. The first of a series is looked at closely, and what surrounds points is copied once a metric, to find its stream.

mod buckets;
mod groups;
mod labels;
mod point;
mod stream;

use hashbrown::HashMap;

use super::decode::Outcome;
use super::wire::{Fields, Place, Wire};
use crate::delivery::{Arrival, Reason};
use crate::event::{Event, Refusal};
use crate::guard::tokens::Pass;
use crate::series::{Series, Session};

use labels::Sender;
use point::Point;
use stream::{Shape, Stream};

/// Streams, and series of all of them, that are remembered by the bytes they come in; more begin anew.
const MAX_STREAMS: usize = 16_384;
const MAX_SERIES: usize = 262_144;
/// Bytes by which they are remembered.
const MAX_KEYS: usize = 64 << 20;
/// How far ahead of this machine's clock a point may be: it would make all later ones come too late.
const AHEAD: u64 = 3_600_000_000_000;

/// What is remembered from request to request.
#[derive(Default)]
pub(super) struct Points {
    /// Where values go.
    pub series: Series,
    streams: HashMap<Box<[u8]>, Stream>,
    /// What all streams have together.
    size: Size,
    scratch: Scratch,
    sender: Sender,
}

/// How much is remembered.
#[derive(Default)]
struct Size {
    groups: usize,
    bytes: usize,
}

/// Memory used again for each point.
#[derive(Default)]
struct Scratch {
    key: Vec<u8>,
    attributes: Vec<u8>,
    point: Point,
    event: Event,
    buckets: buckets::Work,
}

/// What a `Metric` says besides its points.
struct MetricHead<'a> {
    name: &'a str,
    help: &'a str,
    unit: &'a str,
    shape: Shape,
    data: Place,
}

/// One request on its way.
struct Request<'a, 's> {
    body: &'a [u8],
    /// Now, in nanoseconds since the epoch; zero: not known.
    now: u64,
    /// In whose name metrics may come; `None`: in anybody's.
    pass: Option<&'a Pass>,
    session: Session<'s>,
    outcome: &'a mut Outcome,
}

impl Points {
    /// Takes in the points of a request. What is wrong with one of them is noted in the outcome, and passed to `reject` with every
    /// other one's reason; `None`: the event loop or the disk is behind, and nothing was taken in.
    ///
    /// # Errors
    /// What surrounds the points is malformed; those before it are taken in.
    pub(super) fn take(
        &mut self,
        arrival: Arrival,
        body: &[u8],
        pass: Option<&Pass>,
        outcome: &mut Outcome,
        mut reject: impl FnMut(Reason),
    ) -> Option<Result<(), Refusal>> {
        // A handle of its own, as a session borrows it.
        let series = self.series.clone();
        let session = series.begin()?;
        if is_too_much(self.streams.len(), &self.size) {
            // Starting anew is simpler than ageing: the series themselves are remembered elsewhere.
            self.streams.clear();
            self.size = Size::default();
        }
        let nanos = arrival.time.sec as u64 * 1_000_000_000 + u64::from(arrival.time.nsec);
        let mut request = Request { body, now: nanos, pass, session, outcome };
        let result = self.resources(&mut request, &mut reject);
        request.session.commit();
        Some(result)
    }

    fn resources(
        &mut self,
        request: &mut Request<'_, '_>,
        reject: &mut dyn FnMut(Reason),
    ) -> Result<(), Refusal> {
        each(request.body, 0..request.body.len(), 1, |resource| {
            let mut scopes = Fields::of(request.body, resource.clone());
            let sender = find(request.body, resource, 1)?;
            loop {
                let at = scopes.at();
                let Some((number, wire)) = scopes.next()? else { return Ok(()) };
                if number != 2 {
                    continue;
                }
                let place = wire.place(at)?;
                let scope = find(request.body, place.clone(), 1)?;
                each(request.body, place, 2, |metric| {
                    self.metric(request, [sender.clone(), scope.clone()], metric, reject)
                })?;
            }
        })
    }

    fn metric(
        &mut self,
        request: &mut Request<'_, '_>,
        [resource, scope]: [Place; 2],
        place: Place,
        reject: &mut dyn FnMut(Reason),
    ) -> Result<(), Refusal> {
        let body = request.body;
        let bytes = |place: &Place| body.get(place.clone()).unwrap_or_default();
        let Some(head) = MetricHead::read(body, place)? else { return Ok(()) };
        let Points { streams, size, scratch, sender, .. } = self;
        let key = &mut scratch.key;
        key.clear();
        // Whoever may not send in that name has other series.
        let own = request.pass.map(|pass| format!("{pass:?}")).unwrap_or_default();
        for part in
            [bytes(&resource), bytes(&scope), head.name.as_bytes(), head.unit.as_bytes(), own.as_bytes()]
        {
            key.extend_from_slice(&(part.len() as u32).to_ne_bytes());
            key.extend_from_slice(part);
        }
        key.push(head.shape.code());
        if !streams.contains_key(&scratch.key[..]) {
            // Within a request as well, which may have millions of metrics. Labels are about as long as the key.
            let more = 3 * scratch.key.len() + 512;
            if is_too_much(streams.len() + 1, size) || size.bytes + more > MAX_KEYS {
                streams.clear();
                *size = Size::default();
            }
            sender.read(body, &resource, &scope, request.pass, &mut scratch.event)?;
            let stream = Stream::new(&head, sender);
            size.bytes += more;
            streams.insert(scratch.key.as_slice().into(), stream);
        }
        let Some(stream) = streams.get_mut(&scratch.key[..]) else { return Ok(()) };
        each(body, head.data, 1, |place| {
            let at = place.start;
            let taken = scratch
                .point
                .read(body, place, head.shape.data(), &mut scratch.attributes)
                .and_then(|()| check_time(&scratch.point, request.now, at))
                .and_then(|()| match request.session.is_full() {
                    true => Err(Refusal::at(
                        at,
                        Reason::Limit,
                        "more values than one request may have: send less at once",
                    )),
                    false => stream.take(request, scratch, size, at),
                });
            match taken {
                Ok(()) => request.outcome.accepted += 1,
                Err(refusal) => {
                    reject(refusal.reason);
                    // It does not spoil the others: its length tells where the next one begins.
                    request.outcome.rejected += 1;
                    request.outcome.first.get_or_insert(refusal);
                }
            }
            Ok(())
        })
    }
}

impl<'a> MetricHead<'a> {
    /// `None`: a metric without points, or of a kind that is not known here.
    fn read(body: &'a [u8], place: Place) -> Result<Option<MetricHead<'a>>, Refusal> {
        let (mut name, mut help, mut unit) = ("", "", "");
        let mut data = None;
        let mut fields = Fields::of(body, place);
        loop {
            let at = fields.at();
            let Some((number, wire)) = fields.next()? else { break };
            match number {
                1 => name = text(body, wire.place(at)?)?,
                2 => help = text(body, wire.place(at)?)?,
                3 => unit = text(body, wire.place(at)?)?,
                5 | 7 | 9 | 10 | 11 => data = Some((number, wire.place(at)?)),
                _ => {}
            }
        }
        let Some((number, data)) = data else { return Ok(None) };
        let (mut temporality, mut is_monotonic) = (0, false);
        let mut fields = Fields::of(body, data.clone());
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((2, wire)) => temporality = wire.varint(at)?,
                Some((3, wire)) => is_monotonic = wire.varint(at)? != 0,
                Some(_) => {}
                None => break,
            }
        }
        let shape = Shape::of(number, temporality, is_monotonic);
        Ok(Some(MetricHead { name, help, unit, shape, data }))
    }
}

/// Whether more is remembered than may be.
fn is_too_much(streams: usize, size: &Size) -> bool {
    streams > MAX_STREAMS || size.groups > MAX_SERIES || size.bytes > MAX_KEYS
}

fn check_time(point: &Point, now: u64, at: usize) -> Result<(), Refusal> {
    if now > 0 && point.time > now.saturating_add(AHEAD) {
        return Err(Refusal::at(at, Reason::Time, "a time more than an hour ahead"));
    }
    if point.time > 0 && point.start > point.time {
        return Err(Refusal::at(at, Reason::Time, "a start behind the time of the point"));
    }
    Ok(())
}

/// Calls for each field of this number, which is a message.
fn each(
    body: &[u8],
    place: Place,
    wanted: u32,
    mut take: impl FnMut(Place) -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    let mut fields = Fields::of(body, place);
    loop {
        let at = fields.at();
        match fields.next()? {
            Some((number, wire)) if number == wanted => take(wire.place(at)?)?,
            Some(_) => {}
            None => return Ok(()),
        }
    }
}

/// Where the message in a field of this number is, or nothing where it would be.
fn find(body: &[u8], place: Place, wanted: u32) -> Result<Place, Refusal> {
    let mut found = place.start..place.start;
    each(body, place, wanted, |place| {
        found = place;
        Ok(())
    })?;
    Ok(found)
}

fn text(body: &[u8], place: Place) -> Result<&str, Refusal> {
    let bytes = body.get(place.clone()).unwrap_or_default();
    std::str::from_utf8(bytes).map_err(|error| {
        Refusal::at(place.start + error.valid_up_to(), Reason::Encoding, "text that is not UTF-8")
    })
}

/// Numbers of 64 bits, packed or not.
fn fixed64s(body: &[u8], wire: Wire, at: usize, mut take: impl FnMut(u64)) -> Result<(), Refusal> {
    let place = match wire {
        Wire::Fixed64(bits) => {
            take(bits);
            return Ok(());
        }
        wire => wire.place(at)?,
    };
    let (numbers, rest) = body.get(place).unwrap_or_default().as_chunks::<8>();
    if !rest.is_empty() {
        return Err(Refusal::at(at, Reason::Body, "packed numbers that are cut short"));
    }
    numbers.iter().for_each(|bytes| take(u64::from_le_bytes(*bytes)));
    Ok(())
}
