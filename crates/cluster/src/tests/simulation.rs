//! Pods over a simulated log, and one random schedule of what happens. Whatever
//! was sent arrives in any order, late, or not at all.

use super::pod::{Applied, Begun, Pod};
use super::random::Random;
use super::simulated_log::{Fault, SimulatedLog};
use crate::engine::{Halt, Position};
use crate::{Answer, Append, Effect, Event, Found, Plan, PlanNumber, PlanOutcome};
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of the log in a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogFate {
    /// It keeps what it stored.
    Keeps,
    /// It loses its end, or all it has.
    Loses,
}

/// Something on its way.
enum Message {
    /// To the log. It arrives whether or not who sent it lives.
    Append {
        from: Sender,
        number: u64,
        attempt: u32,
        append: Append,
    },
    /// To a pod.
    Tell(Sender, Event),
    /// A pod reads, looks, or takes another's state.
    Read(Sender),
    Look(Sender, u64),
    Restore(Sender),
    /// A pod hears how far another one, or it itself in an earlier life, is.
    Hear(usize, Announced),
}

/// A lane of a life of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sender {
    pod: usize,
    lane: u32,
    life: u64,
}

/// What a pod says that it has.
#[derive(Clone, Copy)]
struct Announced {
    by: usize,
    lane: u32,
    position: Position,
}

/// How many pods there are, and lanes.
const PODS: usize = 3;
const LANES: u32 = 2;

pub(super) struct Simulation {
    random: Random,
    fate: LogFate,
    step: usize,
    pub(super) log: SimulatedLog,
    /// By pod, then lane.
    pub(super) pods: Vec<Vec<Pod>>,
    under_way: Vec<Message>,
    /// What is kept of each lane outside of the log: a position that pods had.
    kept: Vec<Option<Position>>,
    /// The newest that each pod has announced of a lane: whoever starts reads them.
    announced: BTreeMap<(u32, usize), Announced>,
    /// What a pod has heard, and when.
    heard: Vec<(usize, Announced, u64)>,
    /// What was acknowledged, and when.
    acknowledged: Vec<(u32, Position, u64)>,
    has_lost: bool,
    /// Counts what answers are compared with.
    now: u64,
    /// Newest revision of a lease.
    revision: u64,
    plans: u64,
    pub(super) outcomes: BTreeMap<PlanNumber, (u32, PlanOutcome)>,
    /// Plans that were applied where a crash took them away again.
    pub(super) forgotten: BTreeSet<PlanNumber>,
    /// Whether faults happen still.
    is_calm: bool,
}

impl Simulation {
    pub(super) fn new(seed: u64, fate: LogFate) -> Simulation {
        let pod = |number| (0..LANES).map(|lane| Pod::new(number, lane)).collect();
        Simulation {
            random: Random::new(seed),
            fate,
            step: 0,
            log: SimulatedLog::default(),
            pods: (0..PODS).map(pod).collect(),
            under_way: Vec::new(),
            kept: vec![None; LANES as usize],
            announced: BTreeMap::new(),
            heard: Vec::new(),
            acknowledged: Vec::new(),
            has_lost: false,
            now: 0,
            revision: 0,
            plans: 0,
            outcomes: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            is_calm: false,
        }
    }

    /// Lets `steps` things happen, then everything that is under way, without
    /// further faults.
    pub(super) fn run(&mut self, steps: usize) {
        let loss = self.random.below(steps);
        for lane in 0..LANES {
            self.grant(0, lane);
        }
        while self.step < steps {
            self.step += 1;
            self.happen();
            if self.step == loss && self.fate == LogFate::Loses {
                self.lose();
            }
        }
        self.calm_down();
    }

    fn happen(&mut self) {
        let pod = self.random.below(PODS);
        let lane = self.random.below(LANES as usize) as u32;
        match self.random.below(1000) {
            0..600 => self.arrive_any(),
            600..800 => self.work(pod, lane),
            800..900 => self.read(pod, lane),
            900..915 => self.grant(pod, lane),
            915..920 => self.forge(pod, lane),
            920..940 => self.time_out(),
            940..945 => self.tell(pod, lane, Event::Recheck),
            945..955 => self.announce(pod, lane),
            955..962 => self.crash(pod),
            962..965 => self.wipe(pod),
            965..983 => self.keep(pod, lane),
            983..990 => self.trim(pod, lane),
            _ => {
                let until = self.step + self.random.below(80);
                self.pod(pod, lane).sleeps_until = until;
            }
        }
    }

    fn pod(&mut self, pod: usize, lane: u32) -> &mut Pod {
        &mut self.pods[pod][lane as usize]
    }

    fn sender(&mut self, pod: usize, lane: u32) -> Sender {
        let life = self.pod(pod, lane).life;
        Sender { pod, lane, life }
    }

    /// A pod begins a plan, or sends the one that it began. A strong question is a plan
    /// that changes nothing.
    fn work(&mut self, pod: usize, lane: u32) {
        let since = self.tick();
        let clock_ms = self.random.next() % 1000;
        let number = PlanNumber(self.plans);
        let it = self.pod(pod, lane);
        let Some(begun) = it.begun.take() else {
            it.begun = it.term().map(|term| Begun {
                term,
                applied: it.applied.len(),
                since,
            });
            return;
        };
        // While a record is in flight, the next plan waits.
        if it.sent.is_some() {
            it.begun = Some(begun);
            return;
        }
        it.sent = Some((number, begun));
        self.plans += 1;
        let plan = Plan {
            number,
            term: begun.term,
            clock_ms,
            commit: number.0.to_be_bytes().to_vec().into(),
        };
        self.tell(pod, lane, Event::Plan(plan));
    }

    fn read(&mut self, pod: usize, lane: u32) {
        let after = self.pod(pod, lane).replica.position().sequence;
        let unheard = match self.is_calm || self.random.percent(60) {
            true => 0,
            false => self.random.below(4),
        };
        let most = 1 + self.random.below(8);
        let (records, is_all) = self.log.read(lane, after, unheard, most);
        let to = self.sender(pod, lane);
        self.under_way
            .push(Message::Tell(to, Event::Read { records, is_all }));
    }

    /// A pod gets a lane's lease; who had it hears of it later.
    fn grant(&mut self, pod: usize, lane: u32) {
        self.revision += 1;
        let revision = self.revision;
        for other in (0..PODS).filter(|other| *other != pod) {
            let to = self.sender(other, lane);
            self.under_way.push(Message::Tell(to, Event::Lease(None)));
        }
        self.tell(pod, lane, Event::Lease(Some(revision)));
    }

    /// Somebody who may write there, and is no pod, says that a pod has a lease.
    fn forge(&mut self, pod: usize, lane: u32) {
        let revision = self.random.next() % (self.revision + 2);
        self.tell(pod, lane, Event::Lease(Some(revision)));
    }

    /// A pod says how far it is. Others hear of it later, perhaps; it is kept outside of
    /// the log if that goes on from what is kept.
    fn announce(&mut self, pod: usize, lane: u32) {
        let position = self.pod(pod, lane).replica.position();
        let by = pod;
        let announced = Announced { by, lane, position };
        self.announced.insert((lane, by), announced);
        for other in (0..PODS).filter(|other| *other != pod) {
            self.under_way.push(Message::Hear(other, announced));
        }
        let kept = self.kept[lane as usize];
        let it = self.pod(pod, lane);
        let is_lost = matches!(it.halted(), Some(Halt::Lost { .. }));
        let goes_on = kept.is_none_or(|kept| it.has(kept)) && !is_lost;
        if goes_on && position.sequence > 0 {
            self.kept[lane as usize] = Some(position);
        }
        if let Some(kept) = kept {
            self.hear(pod, lane, kept);
        }
    }

    fn hear_announced(&mut self, pod: usize, announced: Announced) {
        let Announced { lane, position, .. } = announced;
        if self.sleeps(pod, lane) {
            return self.under_way.push(Message::Hear(pod, announced));
        }
        let now = self.tick();
        self.heard.push((pod, announced, now));
        self.hear(pod, lane, position);
    }

    fn hear(&mut self, pod: usize, lane: u32, position: Position) {
        if let Some(event) = self.pod(pod, lane).hear(position) {
            self.tell(pod, lane, event);
        }
    }

    /// A pod loses its disk, unless nobody else has what was trimmed, and starts with an
    /// empty one.
    fn wipe(&mut self, pod: usize) {
        for lane in 0..LANES {
            let durable = self.pod(pod, lane).durable;
            let others = (0..PODS).filter(|other| *other != pod);
            let has_all = |it: &Pod| it.halted().is_none() && it.durable >= durable;
            let mut others = others.map(|other| &self.pods[other][lane as usize]);
            if others.any(has_all) {
                let it = &mut self.pods[pod][lane as usize];
                self.forgotten.extend(it.applied.iter().map(Applied::plan));
                it.wipe(pod);
                self.heard
                    .retain(|(by, heard, _)| (*by, heard.lane) != (pod, lane));
                self.start(pod, lane);
            }
        }
    }

    /// A pod that starts looks at what is kept, and announced, before all else.
    fn start(&mut self, pod: usize, lane: u32) {
        let announced = self.announced.range((lane, 0)..(lane, PODS));
        let announced: Vec<Announced> = announced.map(|(_, it)| *it).collect();
        let kept = self.kept[lane as usize];
        for position in kept
            .into_iter()
            .chain(announced.iter().map(|it| it.position))
        {
            if let Some(event) = self.pod(pod, lane).hear(position) {
                self.pod(pod, lane).handle(event);
            }
        }
        let now = self.tick();
        let heard = announced.into_iter().map(|it| (pod, it, now));
        self.heard.extend(heard);
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// A plan was stored, or a strong question answered: nothing that was acknowledged
    /// before it began is missing. If the log has lost something: nothing that a pod
    /// still has of which this one had heard.
    fn acknowledge(&mut self, pod: usize, lane: u32, position: Position, since: u64) {
        let has = |pod: usize, position| self.pods[pod][lane as usize].has(position);
        let is_known = |lost: Position| {
            let heard = self.heard.iter();
            let of_lane = heard.filter(|(to, it, at)| *to == pod && it.lane == lane && *at < since);
            let mut further = of_lane.filter(|(_, it, _)| it.position.sequence >= lost.sequence);
            further.any(|(_, it, _)| has(it.by, it.position) && has(it.by, lost))
        };
        for (_, before, at) in self.acknowledged.iter().filter(|it| it.0 == lane) {
            let contradicts = *at < since && !has(pod, *before);
            assert!(
                !contradicts || (self.has_lost && !is_known(*before)),
                "pod {pod} answers without {before:?}"
            );
        }
        let now = self.tick();
        self.acknowledged.push((lane, position, now));
    }

    fn sleeps(&mut self, pod: usize, lane: u32) -> bool {
        !self.is_calm && self.pod(pod, lane).sleeps_until > self.step
    }

    /// Somebody waits no longer for an answer.
    fn time_out(&mut self) {
        let waiting: Vec<_> = self
            .under_way
            .iter()
            .filter_map(|message| match message {
                Message::Append {
                    from,
                    number,
                    attempt,
                    ..
                } => Some((*from, *number, *attempt)),
                _ => None,
            })
            .collect();
        if waiting.is_empty() {
            return;
        }
        let (from, number, attempt) = waiting[self.random.below(waiting.len())];
        let answer = Answer::Unknown;
        self.hand_over(
            from,
            Event::Answered {
                number,
                attempt,
                answer,
            },
        );
    }

    /// All lanes of a pod lose what was not forced to its disk.
    fn crash(&mut self, pod: usize) {
        for lane in 0..LANES {
            let (durable, applied) = {
                let it = self.pod(pod, lane);
                (it.durable, it.applied.len())
            };
            let left = durable + self.random.below(applied - durable + 1);
            let lost: Vec<PlanNumber> = self.pod(pod, lane).applied[left..]
                .iter()
                .map(Applied::plan)
                .collect();
            self.forgotten.extend(lost);
            self.pod(pod, lane).crash(pod, left);
            self.start(pod, lane);
        }
    }

    fn keep(&mut self, pod: usize, lane: u32) {
        let it = self.pod(pod, lane);
        it.durable = it.applied.len();
    }

    /// The log forgets what a pod keeps for good.
    fn trim(&mut self, pod: usize, lane: u32) {
        let it = self.pod(pod, lane);
        if it.halted().is_none() && it.durable > 0 {
            let before = it.applied[it.durable - 1].position.sequence;
            self.log.trim(lane, before.min(self.log.newest(lane)));
        }
    }

    fn lose(&mut self) {
        self.has_lost = true;
        if self.random.percent(50) {
            self.kept.fill(None);
        }
        match self.random.below(6) {
            0 => self.log.recreate(),
            1 => self.log.purge(),
            _ => {
                let records = 1 + self.random.below(self.log.len().max(1));
                let keeps_ids = self.random.percent(50);
                self.log.rewind(records, keeps_ids);
            }
        }
    }

    fn arrive_any(&mut self) {
        if self.under_way.is_empty() {
            return;
        }
        let at = self.random.below(self.under_way.len());
        let message = self.under_way.swap_remove(at);
        self.arrive(message);
    }

    fn arrive(&mut self, message: Message) {
        match message {
            Message::Append {
                from,
                number,
                attempt,
                append,
            } => self.append(from, number, attempt, append),
            Message::Tell(to, event) => self.hand_over(to, event),
            Message::Read(from) if self.lives(from) => self.read(from.pod, from.lane),
            Message::Look(from, sequence) => {
                let found = match !self.is_calm && self.random.percent(20) {
                    true => Found::Unsure,
                    false => self.log.look(from.lane, sequence),
                };
                self.under_way
                    .push(Message::Tell(from, Event::Looked { sequence, found }));
            }
            Message::Restore(from) if self.lives(from) => self.restore(from),
            Message::Read(_) | Message::Restore(_) => {}
            Message::Hear(pod, announced) => self.hear_announced(pod, announced),
        }
    }

    fn append(&mut self, from: Sender, number: u64, attempt: u32, append: Append) {
        let fault = match self.random.below(100) {
            _ if self.is_calm => Fault::None,
            0..70 => Fault::None,
            70..76 => Fault::Dropped,
            76..84 => Fault::Busy,
            84..92 => Fault::RefusedAndStored,
            _ => Fault::Unanswered,
        };
        let answer = self.log.append(from.lane, &append, fault);
        // It comes a second time, by another way.
        if !self.is_calm && self.random.percent(10) {
            self.under_way.push(Message::Append {
                from,
                number,
                attempt,
                append,
            });
        }
        let event = Event::Answered {
            number,
            attempt,
            answer,
        };
        self.under_way.push(Message::Tell(from, event));
    }

    /// Takes the state of the pod that has most.
    fn restore(&mut self, to: Sender) {
        let sources = self.pods.iter().map(|lanes| &lanes[to.lane as usize]);
        let living = sources.filter(|it| it.halted().is_none());
        let source = living.max_by_key(|it| it.replica.position().sequence);
        let from = source.map(|it| it.applied.clone()).unwrap_or_default();
        self.pod(to.pod, to.lane).restore(to.pod, from);
        if self.lives(to) && !self.is_calm {
            self.under_way.push(Message::Restore(to));
        }
    }

    fn lives(&mut self, it: Sender) -> bool {
        self.pod(it.pod, it.lane).life == it.life
    }

    fn tell(&mut self, pod: usize, lane: u32, event: Event) {
        let to = self.sender(pod, lane);
        self.hand_over(to, event);
    }

    fn hand_over(&mut self, to: Sender, event: Event) {
        if !self.lives(to) {
            return;
        }
        if self.sleeps(to.pod, to.lane) {
            // A plan comes from the pod itself, which is asleep.
            match event {
                Event::Plan(_) => self.pod(to.pod, to.lane).sent = None,
                _ => self.under_way.push(Message::Tell(to, event)),
            }
            return;
        }
        let effects = self.pod(to.pod, to.lane).handle(event);
        self.carry_out(to, effects);
    }

    fn carry_out(&mut self, by: Sender, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Append(asked) => self.under_way.push(Message::Append {
                    from: by,
                    number: asked.number,
                    attempt: asked.attempt,
                    append: asked.append,
                }),
                Effect::Read => self.under_way.push(Message::Read(by)),
                Effect::Look(sequence) => self.under_way.push(Message::Look(by, sequence)),
                Effect::Restore => self.under_way.push(Message::Restore(by)),
                Effect::Apply { position, record } => {
                    self.pod(by.pod, by.lane).apply(position, record);
                }
                Effect::Settle(plan, outcome) => {
                    let begun = self.pod(by.pod, by.lane).settled(plan, outcome);
                    if let (Some(begun), PlanOutcome::Committed(position)) = (begun, outcome) {
                        self.acknowledge(by.pod, by.lane, position, begun.since);
                    }
                    let before = self.outcomes.insert(plan, (by.lane, outcome));
                    assert_eq!(before, None, "{plan:?} was settled twice");
                }
                Effect::Halt(_) => {}
            }
        }
    }

    /// Nothing goes wrong any more: all that is under way arrives, and everybody
    /// reads to the end and looks whether the log is still theirs.
    fn calm_down(&mut self) {
        self.is_calm = true;
        for round in 0.. {
            for message in std::mem::take(&mut self.under_way) {
                self.arrive(message);
            }
            if self.under_way.is_empty() {
                if round > 20 {
                    return;
                }
                for pod in 0..PODS {
                    for lane in 0..LANES {
                        self.tell(pod, lane, Event::Recheck);
                        self.read(pod, lane);
                        self.announce(pod, lane);
                        if self.pod(pod, lane).replica.is_behind() {
                            let from = self.sender(pod, lane);
                            self.under_way.push(Message::Restore(from));
                        }
                    }
                }
            }
            assert!(round < 10_000, "it does not come to rest");
        }
    }
}
