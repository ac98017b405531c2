//! What a listener serves, and how it is spoken to.

/// What is served on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerRole {
    /// Everything.
    All,
    /// What [`Operations`](ListenerRole::Operations) leaves, while another listener
    /// serves these.
    Filters,
    /// Metrics, which need no key here, probes, and what is under `/admin`.
    Operations,
    /// What `Operations` has but for what is under `/admin`: for callers there
    /// that show no certificate though one is asked for.
    Scrapers,
}

/// How callers speak to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Without TLS, maybe through a proxy that takes it off.
    Plain,
    /// With TLS.
    Tls,
}
