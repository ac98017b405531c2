//! Fuzz targets for bodies, queries and headers.

use super::answer::Format;
use super::bounds::{MAX_ITEM_BYTES, MAX_QUERY_ITEM_BYTES};
use super::extract::query_item;
use super::idempotency::Keyed;
use super::media::media_type;
use super::middleware::origin;
use super::parse::{self, BatchKind, Encoding, LineFeed, LineFormat, LineOptions};
use super::problem::HttpError;
use crate::chain::meta::Chain;
use crate::chain::params::{Attributes, Codes, Defaults, FilterParams, FilterRequest};
use crate::engine::{BadLine, EntryCodec, ImportLines, ItemBatch, RowCodec};
use crate::server::{HostPolicy, Transport};
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use cuckood_filter::cuckoo::hash::HashKey;
use serde_json::json;

/// Items of a batch; more are refused.
const MAX_ITEMS: usize = 1000;

/// A batch in JSON, of each kind.
fn items(bytes: &[u8]) {
    for kind in [
        BatchKind::Add,
        BatchKind::Lookup,
        BatchKind::Question,
        BatchKind::AddValues,
        BatchKind::ReplaceValues,
        BatchKind::Exists,
    ] {
        match parse::json_batch(bytes, kind, MAX_ITEMS) {
            Ok(batch) => same_in_base64(&batch.items),
            Err(error) => short(&error),
        }
    }
}

/// Items are within their bounds, and the same when they are said otherwise.
fn same_in_base64(items: &ItemBatch) {
    assert!(items.len() <= MAX_ITEMS);
    assert!(items.iter().all(|item| item.len() <= MAX_ITEM_BYTES));
    let texts: Vec<String> = items.iter().map(|item| STANDARD.encode(item)).collect();
    let body = json!({"items": texts, "encoding": "base64"}).to_string();
    match parse::json_batch(body.as_bytes(), BatchKind::Question, MAX_ITEMS) {
        Ok(again) => assert!(again.items.iter().eq(items.iter())),
        Err(error) => panic!("{error}"),
    }
}

/// An error says little of what it was given.
fn short(error: &HttpError) {
    let problem = serde_json::to_string(&error.problem("0123456789abcdef"));
    let length = problem.map_or(0, |problem| problem.len());
    assert!((1..16_000).contains(&length), "{length}");
}

/// The fields of a filter, and of its change.
fn fields(bytes: &[u8]) {
    match parse::new_filter(bytes, "/create") {
        Ok(wanted) => {
            let request = &wanted.params;
            let mut body = json!({
                "capacity": request.capacity,
                "layout": request.layout.map(|layout| layout.name()),
                "error_rate": request.error_rate,
                "fingerprint_bits": request.fingerprint_bits,
                "value_bits": request.value_bits,
                "values_per_item": request.values_per_item,
                "attributes": request.attributes.as_ref().map(said),
                "window_seconds": request.window_seconds,
                "window_resolution_seconds": request.window_resolution_seconds,
                "bucket_size": request.bucket_size,
                "max_iterations": request.max_iterations,
                "expansion": request.expansion,
                "max_expansions": request.max_expansions,
                "ttl_seconds": wanted.ttl_seconds,
            });
            if let Some(fields) = body.as_object_mut() {
                fields.retain(|_, value| !value.is_null());
            }
            match parse::new_filter(body.to_string().as_bytes(), "") {
                Ok(again) => assert_eq!(again, wanted),
                Err(error) => panic!("{error}"),
            }
        }
        Err(error) => short(&error),
    }
    match parse::changed_ttl(bytes) {
        Ok(ttl_seconds) => {
            let body = json!({"ttl_seconds": ttl_seconds}).to_string();
            assert_eq!(parse::changed_ttl(body.as_bytes()).ok(), Some(ttl_seconds));
        }
        Err(error) => short(&error),
    }
}

/// Attributes as they are said in a body.
fn said(attributes: &Attributes) -> Vec<serde_json::Value> {
    let said = attributes.iter().map(|it| match &it.codes {
        Codes::Exact(labels) => json!({"name": it.name, "values": labels}),
        Codes::Hashed(bits) => json!({"name": it.name, "hash_bits": bits}),
    });
    said.collect()
}

/// A batch of lines; the first byte says in which encoding.
fn lines(bytes: &[u8]) {
    let Some((&first, text)) = bytes.split_first() else {
        return;
    };
    let encoding = match first % 2 {
        0 => Encoding::Plain,
        _ => Encoding::Base64,
    };
    let batch = match parse::text_batch(
        &Bytes::copy_from_slice(text),
        BatchKind::Question,
        LineOptions {
            encoding,
            ..LineOptions::default()
        },
        MAX_ITEMS,
    ) {
        Ok(batch) => batch,
        Err(error) => return short(&error),
    };
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut expected = text.split(|&byte| byte == b'\n').collect::<Vec<_>>();
    // What ends with a line feed has no further line, and nothing has none.
    if expected.last().is_some_and(|last| last.is_empty()) {
        expected.pop();
    }
    let expected: Vec<_> = expected
        .into_iter()
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .collect();
    let blanks = expected
        .iter()
        .enumerate()
        .filter(|(_, line)| line.is_empty());
    assert!(
        blanks
            .map(|(number, _)| number)
            .eq(batch.blanks.iter().copied())
    );
    let whole: Vec<_> = expected
        .into_iter()
        .filter(|line| !line.is_empty())
        .collect();
    match encoding {
        Encoding::Plain => assert!(batch.items.iter().eq(whole)),
        Encoding::Base64 => assert_eq!(batch.items.len(), whole.len()),
    }
    same_in_base64(&batch.items);
}

/// A stream of an import: the same however it is cut. The first bytes say in
/// which format it is, and where it is cut.
fn stream(bytes: &[u8]) {
    let Some((&[format, first, done, cut], stream)) = bytes.split_first_chunk::<4>() else {
        return;
    };
    // Values of 7 bits, rows, or none.
    let (value_bits, values) = match format / 2 % 4 {
        1 => (7, EntryCodec::Values(7)),
        2 => (7, EntryCodec::Rows(row_codec())),
        _ => (0, EntryCodec::Items),
    };
    let format = match format % 2 {
        0 => LineFormat::Text,
        _ => LineFormat::Json,
    };
    let (first, done) = (u64::from(first) + 1, u64::from(done));
    let kind = &(format, values);
    let whole = fed(kind, first, done, stream, stream.len().max(1));
    let pieces = fed(kind, first, done, stream, usize::from(cut) + 1);
    assert_eq!(whole, pieces);
    assert!(whole.0.iter().all(|(_, item)| item.len() <= MAX_ITEM_BYTES));
    let (items, values, bad, last) = whole;
    assert_eq!(values.len(), if value_bits == 0 { 0 } else { items.len() });
    assert!(values.iter().all(|value| value >> value_bits == 0));
    assert!(items.iter().all(|&(line, _)| line > done && line <= last));
    assert!(bad.iter().all(|&(line, _)| line > done && line <= last));
}

type Fed = (Vec<(u64, Vec<u8>)>, Vec<u32>, Vec<(u64, BadLine)>, u64);

/// Items by number, their values, bad lines by number, and the number of the last
/// line.
fn fed(
    (format, values): &(LineFormat, EntryCodec),
    first: u64,
    done: u64,
    stream: &[u8],
    cut: usize,
) -> Fed {
    let mut feed = LineFeed::new(*format, values.clone(), first, done);
    let (mut items, mut values, mut bad, mut last) = (Vec::new(), Vec::new(), Vec::new(), 0);
    let mut take = |lines: ImportLines| {
        let numbered = lines.item_lines.iter().zip(lines.items.iter());
        items.extend(numbered.map(|(&at, item)| (lines.first_line + u64::from(at), item.to_vec())));
        values.extend(lines.values);
        let bad_lines = lines.bad.iter();
        bad.extend(bad_lines.map(|&(at, why)| (lines.first_line + u64::from(at), why)));
        last = lines.first_line + u64::from(lines.count) - 1;
    };
    for mut piece in stream.chunks(cut) {
        while feed.push(&mut piece) {
            take(feed.take());
        }
    }
    feed.end();
    take(feed.take());
    (items, values, bad, last)
}

/// A path and query.
fn query(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(uri) = format!("/?{text}").parse::<Uri>() else {
        return;
    };
    match query_item(&uri, "POST /filters/{key}/exists") {
        Ok(items) => {
            let item = items.get(0).unwrap_or_default();
            assert!(items.len() == 1 && item.len() <= MAX_QUERY_ITEM_BYTES);
            let again = format!("/?item_base64url={}", URL_SAFE_NO_PAD.encode(item));
            let Ok(again) = again.parse::<Uri>() else {
                panic!("base64url is part of any query");
            };
            let again = query_item(&again, "").map(|items| items.get(0).map(<[u8]>::to_vec));
            assert_eq!(again.ok().flatten().as_deref(), Some(item));
        }
        Err(error) => short(&error),
    }
    for kind in [
        BatchKind::Add,
        BatchKind::Question,
        BatchKind::Exists,
        BatchKind::ReplaceValues,
    ] {
        match parse::line_options(kind, &uri) {
            Ok(options) => assert!(kind == BatchKind::Add || options.add.create.is_none()),
            Err(error) => short(&error),
        }
    }
}

/// Of rows with one attribute of three labels and one of 5 bits of a hash.
fn row_codec() -> RowCodec {
    let labels = ["a", "b", ""].map(str::to_owned);
    let attributes = Attributes::new(vec![
        ("plan".to_owned(), Codes::Exact(labels.into())),
        ("tag".to_owned(), Codes::Hashed(5)),
    ]);
    let request = FilterRequest {
        attributes: attributes.ok(),
        ..FilterRequest::default()
    };
    let params = FilterParams::resolve(&request, &Defaults::default()).ok();
    let chain = params.and_then(|params| Chain::new(params, HashKey([7; 16]), 0));
    match chain.as_ref().and_then(RowCodec::of) {
        Some(codec) => codec,
        None => panic!("a filter with attributes has rows"),
    }
}

/// Headers: a line each, of which the first byte chooses the name.
fn head(bytes: &[u8]) {
    const NAMES: [&str; 8] = [
        "accept",
        "content-type",
        "host",
        "idempotency-key",
        "if-match",
        "if-none-match",
        "origin",
        "sec-fetch-site",
    ];
    let mut headers = HeaderMap::new();
    for line in bytes.split(|&byte| byte == b'\n').take(20) {
        let Some((&choice, value)) = line.split_first() else {
            continue;
        };
        let name = NAMES.get(usize::from(choice) % NAMES.len());
        if let (Some(name), Ok(value)) = (name, HeaderValue::from_bytes(value)) {
            headers.append(HeaderName::from_static(name), value);
        }
    }
    let _ = (media_type(&headers), Format::wanted(&headers));
    let uri = Uri::from_static("/filters/f");
    if origin::check(&HostPolicy::LocalOnly, Transport::Plain, &uri, &headers).is_ok() {
        // There is one host name, and no foreign page.
        assert_eq!(headers.get_all("host").iter().count(), 1);
        assert!(origin::check(&HostPolicy::Any, Transport::Plain, &uri, &headers).is_ok());
    }
    let (mut parts, ()) = Request::new(()).into_parts();
    parts.headers = headers;
    let keys: Vec<_> = parts.headers.get_all("idempotency-key").iter().collect();
    let is_key = |value: &HeaderValue| {
        (1..=255).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    let expected = match keys.as_slice() {
        [] => Some(false),
        [key] if is_key(key) => Some(true),
        _ => None,
    };
    let keyed = Keyed::of(&parts).map(|keyed| keyed.is_some());
    assert_eq!(keyed.ok(), expected);
}

/// What fuzzing begins with.
#[cfg(test)]
fn seeds() -> Vec<(&'static str, String, Vec<u8>)> {
    let seeds: [(&str, &str, &[u8]); 21] = [
        ("items", "add", br#"{"items":["SPRING-24",17,-9],"only_if_absent":true,"create":{"capacity":1000,"error_rate":0.01}}"#),
        ("items", "base64", br#"{"items":["_w==","AA=="],"encoding":"base64"}"#),
        ("items", "lookup", br#"{"items":["\ud83d\ude00"],"filters":["a","b:c"],"first":true}"#),
        ("items", "prefix", br#"{"items":[],"prefix":"campaign-"}"#),
        ("items", "rows", br#"{"entries":[{"item":"ada","attributes":{"plan":"pro","tag":"\ud83d\ude00"}}]}"#),
        ("items", "replace", br#"{"entries":[{"item":"ada","from":17,"to":18},{"item":1,"from":0,"to":65535}]}"#),
        ("items", "where", br#"{"items":["ada"],"where":{"plan":["pro"],"tag":["DE","AT"]}}"#),
        ("fields", "attributes", br#"{"attributes":[{"name":"plan","values":["free","pro"]},{"name":"tag","hash_bits":5}],"values_per_item":3}"#),
        ("stream", "rows", b"\x05\x00\x00\x03{\"item\":1,\"attributes\":{\"tag\":\"x\",\"plan\":\"a\"}}\n{\"item\":2,\"attributes\":{\"plan\":\"c\"}}\n"),
        ("fields", "paged", br#"{"capacity":1e5,"error_rate":0.001,"layout":"paged","expansion":2,"max_expansions":32,"ttl_seconds":60}"#),
        ("fields", "classic", br#"{"bucket_size":2,"max_iterations":20,"fingerprint_bits":16}"#),
        ("fields", "end", br#"{"ttl_seconds":null}"#),
        ("lines", "plain", b"\x00SPRING-24\r\n\nAUTUMN-24\n"),
        ("lines", "base64", b"\x01AA==\n_w\n"),
        ("stream", "text", b"\x00\x00\x00\x03SPRING-24\r\n\nAUTUMN-24\n17"),
        ("stream", "json", b"\x01\x02\x03\x05\"a\\nb\"\n17\n-9\n1.5\n[]\n\"\\ud800\"\n"),
        ("query", "item", b"item=a%2Bb+c"),
        ("query", "base64url", b"item_base64url=_w"),
        ("query", "create", b"only_if_absent=true&create=true&capacity=10&layout=classic&encoding=base64"),
        ("head", "local", b"\x02localhost:8080\n\x06http://localhost:8080\n\x0318a-key\n\x01text/plain; charset=utf-8\n\x00text/plain"),
        ("head", "tags", b"\x04\"0f5e\"\n\x05*\n\x07cross-site\n\x02[::1]"),
    ];
    let owned = |(target, name, bytes): (&'static str, &str, &[u8])| {
        (target, name.to_owned(), bytes.to_vec())
    };
    seeds.into_iter().map(owned).collect()
}

/// Reads any bytes; panics if an assertion about them does not hold.
pub type Target = fn(&[u8]);

/// All of them, by the names of their directories in `fuzz/seeds`.
pub const TARGETS: &[(&str, Target)] = &[
    ("fields", fields),
    ("head", head),
    ("items", items),
    ("lines", lines),
    ("query", query),
    ("stream", stream),
];

#[cfg(test)]
#[path = "../../../fuzz/replay.rs"]
mod replay;
