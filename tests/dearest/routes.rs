//! The dearest forms of each route.

use crate::form::{Form, Request, Round, command};
use crate::prepared::{
    World, base64_items, entries, entry_lines, lines, long_lines, name, rows, shape,
};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE;
use serde_json::json;

/// Longest item in a query string.
const IN_QUERY: usize = 4096;

fn in_query() -> String {
    format!("item={}", "q".repeat(IN_QUERY))
}

fn in_query_base64() -> String {
    let item = BASE64_URL_SAFE.encode([0xff; IN_QUERY]);
    format!("item_base64url={item}")
}

/// So many rounds of one request each.
fn each(
    door: &'static str,
    what: &str,
    rounds: usize,
    change: impl Fn(&World, Request, usize) -> Request + 'static,
) -> Form {
    Form::new(door, what, move |world| {
        let numbers = 0..rounds.min(world.many);
        let asked = numbers.map(|n| Round::Http(vec![change(world, Request::to(door, "x"), n)]));
        asked.collect()
    })
}

/// A condition with as many values as a head has room for.
fn condition(attributes: usize, world: &World) -> String {
    let labels = |attribute: usize| -> Vec<String> {
        let many = 64.min(world.many);
        let labels = (0..many).map(|n| format!("{attribute}{n:w>255}"));
        labels.collect()
    };
    let listed = (1..=attributes).map(|n| (format!("{n}{}", "n".repeat(63)), json!(labels(n))));
    json!(listed.collect::<serde_json::Map<_, _>>()).to_string()
}

pub(crate) fn forms() -> Vec<Form> {
    let mut all = of_filters();
    all.extend(of_dumps());
    all.extend(of_questions());
    all.extend(of_changes());
    all.extend(of_values());
    all.extend(of_operations());
    all.extend(of_pages());
    all
}

/// What only a pod of a cluster waits for: positions that there will never be.
pub(crate) fn of_positions() -> Vec<Form> {
    let doors = [
        ("GET /filters/{key}/exists", "item=0"),
        ("GET /filters/{key}", ""),
    ];
    let waits = |(door, query): (&'static str, &'static str)| {
        Form::request(door, "a position beyond the end", move |_, it| {
            let it = it.at("neighbour").query(query);
            it.header("cuckood-min-position", "1.0.18000000000000000")
                .header("prefer", "wait=1")
        })
        .refused()
        .among_the_worst()
    };
    let mut all: Vec<Form> = doors.into_iter().map(waits).collect();
    // As many as a head has room for, and as a command that names no key may have. They
    // are reached.
    let reached = |count: usize| vec!["1.0.1"; count].join(",");
    all.extend(doors.map(|(door, query)| {
        Form::request(door, "10,000 positions", move |_, it| {
            let it = it.at("neighbour").query(query);
            it.header("cuckood-min-position", reached(10_000))
        })
    }));
    all.push(Form::new(
        "client",
        "10,920 positions, 16 at once",
        move |_| {
            let commands = [
                command(&["CLIENT", "POSITION", &reached(10_920)]),
                // A strong question waits for none.
                command(&["CLIENT", "CONSISTENCY", "local"]),
                command(&["CF.EXISTS", "neighbour", "0"]),
            ];
            vec![Round::Redis(commands.concat().repeat(16).into())]
        },
    ));
    all
}

fn of_filters() -> Vec<Form> {
    let page = "limit=1000&prefix=l&cursor=l";
    vec![
        Form::request("GET /filters", "1,000 of 16 KiB", move |_, it| {
            it.query(page)
        })
        .among_the_worst(),
        Form::request("GET /filters", "the same, gzip", move |_, it| {
            it.query(page).zipped()
        })
        .among_the_worst(),
        Form::request("GET /filters", "a part that none has", |_, it| {
            it.query("limit=1000&contains=%21%21")
        }),
        Form::request("GET /filters", "a part of 255", |_, it| {
            it.query(&format!("limit=1000&contains={}%21", "-".repeat(254)))
        }),
        Form::request("GET /filters", "a start of 255", |_, it| {
            it.query(&format!("limit=1000&prefix={}", name('l', 0)))
        }),
        Form::request("GET /filters/{key}/history", "gzip", |_, it| {
            it.at(&name('l', 0)).zipped()
        }),
        Form::request("GET /filters/{key}", "16 KiB", |_, it| {
            it.at(&name('l', 0)).zipped()
        }),
        Form::request("HEAD /filters/{key}", "16 KiB", |_, it| {
            it.at(&name('l', 1))
        }),
        each("PUT /filters/{key}", "16 KiB, new", 2000, |_, it, n| {
            let it = it.at(&name('c', n)).once(n).json(shape());
            it.header("if-none-match", "*")
        }),
        Form::new("DELETE /filters/{key}", "made and deleted", |world| {
            let of = |n: usize| {
                let key = name('d', n);
                vec![
                    Request::to("PUT /filters/{key}", &key).json(shape()),
                    Request::to("DELETE /filters/{key}", &key).once(n).or(404),
                ]
            };
            (0..2000.min(world.many)).map(of).map(Round::Http).collect()
        }),
        each("PATCH /filters/{key}", "16 KiB", 2000, |_, it, n| {
            let body = r#"{"ttl_seconds": 3162240000}"#;
            it.at(&name('l', 2)).once(n).json(body.to_owned())
        }),
        Form::request("POST /filters/{key}/compact", "64 sub-filters", |_, it| {
            it.at("shrinking").once(0).or(409)
        }),
        Form::request(
            "GET /filters/{key}/compaction",
            "64 sub-filters",
            |_, it| it.at("shrinking"),
        ),
        Form::request("POST /preview", "16 KiB", |_, it| it.json(shape()).zipped()),
    ]
}

fn of_dumps() -> Vec<Form> {
    vec![
        Form::request("GET /filters/{key}/dump", "a large one", |_, it| {
            it.at("large").header("if-none-match", "\"other\"")
        }),
        Form::request("GET /filters/{key}/dump", "gzip", |_, it| {
            it.at("large").zipped()
        }),
        Form::request("GET /filters/{key}/dump", "its last byte", |world, it| {
            let it = it.at("restored").query("without_key=true");
            let it = it.header("if-match", world.etag.clone()).or(412);
            let it = it.header("if-range", world.etag.clone());
            it.header("range", "bytes=-1")
        }),
        Form::request("PUT /filters/{key}/dump", "over itself", |world, it| {
            let it = it.at("restored").query("replace=true");
            it.body("application/octet-stream", world.dump.clone())
        }),
        Form::request(
            "PUT /filters/{key}/dump",
            "over itself, if it is the same",
            |world, it| {
                let it = it.at("restored").query("replace=true");
                let it = it.header("if-match", world.etag.clone()).or(412);
                it.body("application/octet-stream", world.dump.clone())
            },
        ),
        Form::request("GET /filters/{key}/dump", "many tags", |world, it| {
            let tags: String = (0..750).map(|n| format!("\"{n:032x}-0-0\",")).collect();
            let it = it.at("restored").header("if-none-match", &tags);
            it.header("if-match", tags + &world.etag).or(412)
        }),
        Form::request("PUT /filters/{key}/dump", "many tags", |world, it| {
            // Those that can be no filter's are left out.
            let tags = "\"\",".repeat(20_000) + &world.etag;
            let it = it.at("restored").query("replace=true");
            let it = it.header("if-match", tags).or(412);
            it.body("application/octet-stream", world.dump.clone())
        }),
        each(
            "POST /filters/{key}/merge",
            "of equal ones",
            8,
            |_, it, n| {
                let body = r#"{"from": ["sibling"]}"#.to_owned();
                let it = it.at("united").json(body);
                // Each makes the filter larger, until one takes more than there is.
                if n == 0 { it.once(n) } else { it.or(413) }
            },
        )
        .among_the_worst(),
        Form::request("PUT /filters/{key}/dump", "of RedisBloom", |world, it| {
            let it = it.at("bloom").query("replace=true");
            it.body(
                "application/vnd.redisbloom.scandump",
                world.scandump.clone(),
            )
        }),
    ]
}

fn of_questions() -> Vec<Form> {
    let mut all = Vec::new();
    for (door, key) in [
        ("GET /filters/{key}/exists", "deep"),
        ("GET /filters/{key}/count", "deep"),
        ("GET /filters/{key}/locate", "deep"),
        ("GET /filters/{key}/values", "valued"),
    ] {
        all.push(Form::request(door, "4 KiB", move |_, it| {
            it.at(key).query(&in_query())
        }));
        all.push(Form::request(door, "4 KiB of base64", move |_, it| {
            it.at(key).query(&in_query_base64())
        }));
    }
    for door in ["POST /filters/{key}/exists", "POST /filters/{key}/count"] {
        all.push(
            Form::request(door, "4,000,000 probes", |world, it| {
                it.at("chain").text(lines(world.many, 0)).zipped()
            })
            .among_the_worst(),
        );
        all.push(Form::request(
            door,
            "32 MiB of text, packed",
            |world, it| it.at("chain").text(long_lines(world.many, 0)).packed(),
        ));
        all.push(Form::request(door, "32 MiB of base64", |world, it| {
            let items = base64_items(world.many, 124);
            let body = format!(r#"{{"encoding":"base64","items":[{items}]}}"#);
            it.at("large").json(body)
        }));
    }
    all.extend([
        Form::request("GET /filters/{key}/exists", "a window", |_, it| {
            it.at("window")
                .query(&format!("{}&within_seconds=316224000", in_query()))
        }),
        Form::request("GET /filters/{key}/exists", "a long condition", |world, it| {
            let condition = condition(2, world).replace('"', "%22");
            it.at("rows")
                .query(&format!("item=0&where={condition}"))
        }),
        Form::request("POST /filters/{key}/exists", "a window", |world, it| {
            let items = base64_items(world.many, 8);
            let body = format!(
                r#"{{"encoding":"base64","items":[{items}],"within_seconds":316224000}}"#
            );
            it.at("window").json(body)
        }),
        Form::request("POST /filters/{key}/exists", "a long condition", |world, it| {
            let items = base64_items(world.many, 8);
            let condition = condition(7, world);
            let body = format!(
                r#"{{"encoding":"base64","items":[{items}],"where":{condition}}}"#
            );
            it.at("rows").json(body)
        }),
        Form::request("POST /filters/{key}/exists", "rows", |world, it| {
            it.at("rows")
                .json(format!(r#"{{"entries":[{}]}}"#, rows(world.many.min(8_000), 0)))
        }),
        Form::request("POST /lookup", "1,000 filters that say yes", |world, it| {
            let items = base64_items(world.probes / world.filters, 8);
            it.json(format!(
                r#"{{"encoding":"base64","prefix":"w0","items":[{items}]}}"#
            ))
        })
        .among_the_worst(),
        Form::request("POST /lookup", "the first of them, by name", |world, it| {
            let items = base64_items(world.probes / world.filters, 8);
            let names: Vec<String> = (0..world.filters).map(|n| name('w', n)).collect();
            let body = format!(
                r#"{{"encoding":"base64","first":true,"filters":{},"items":[{items}]}}"#,
                json!(names)
            );
            it.json(body).zipped()
        }),
        Form::request("POST /lookup", "250,000 items, a window", |world, it| {
            let items = base64_items(world.many, 8);
            it.json(format!(
                r#"{{"encoding":"base64","filters":["window"],"within_seconds":316224000,"items":[{items}]}}"#
            ))
        }),
    ]);
    all
}

fn of_changes() -> Vec<Form> {
    let long_id = |n: usize| format!("{n:~>100}");
    vec![
        each(
            "POST /filters/{key}/items",
            "250,000 new",
            8,
            |world, it, n| {
                let it = it.at("added").query("create=true&capacity=4000000");
                it.text(lines(world.many, n * world.many))
            },
        )
        .among_the_worst(),
        each(
            "POST /filters/{key}/items",
            "32 MiB of base64",
            4,
            |world, it, n| {
                let items = base64_items(world.many, 124);
                it.at("unless").once(n).json(format!(
                r#"{{"encoding":"base64","only_if_absent":true,"create":{{"capacity":1000}},"items":[{items}]}}"#
            ))
            },
        ),
        each(
            "POST /filters/{key}/items",
            "32 MiB of text, packed",
            2,
            |world, it, n| {
                let it = it.at("unless").query("only_if_absent=true");
                it.text(long_lines(world.many, n * world.many)).packed()
            },
        ),
        Form::request("POST /filters/{key}/items", "to a chain", |world, it| {
            it.at("deep").text(lines(world.many / 4, 0))
        }),
        each(
            "POST /filters/{key}/items/delete",
            "250,000, packed",
            8,
            |world, it, n| {
                let it = it.at("added");
                it.text(lines(world.many, n * world.many)).packed()
            },
        ),
        each(
            "POST /filters/{key}/items/delete",
            "32 MiB of base64",
            4,
            |world, it, n| {
                let items = base64_items(world.many, 124);
                it.at("unless")
                    .once(n)
                    .json(format!(r#"{{"encoding":"base64","items":[{items}]}}"#))
            },
        ),
        each(
            "POST /filters/{key}/import",
            "1,000,000 lines",
            64,
            move |world, it, n| {
                let query = format!("import_id={}&from_line=1&only_if_absent=true", long_id(n));
                it.at("imported")
                    .query(&query)
                    .text(lines(4 * world.many, 0))
            },
        )
        .among_the_worst(),
        each(
            "POST /filters/{key}/import",
            "32 MiB of JSON, packed",
            64,
            move |world, it, n| {
                let query = format!("import_id={}", long_id(1000 + n));
                let body = format!("\"{}\"\n", "\\u0001".repeat(100)).repeat(world.many / 5);
                it.at("imported")
                    .query(&query)
                    .body("application/x-ndjson", body)
                    .packed()
            },
        ),
        Form::request("GET /filters/{key}/imports", "gzip", |_, it| {
            it.at("imported").query("cursor=0").zipped()
        }),
        Form::new("GET /filters/{key}/imports/{id}", "a long id", move |_| {
            let asked = Request::to("GET /filters/{key}/imports/{id}", "imported");
            let path = asked.path.replace("{id}", &long_id(0));
            vec![Round::Http(vec![Request { path, ..asked }.or(404)])]
        }),
    ]
}

fn of_values() -> Vec<Form> {
    let (add, delete) = (
        "POST /filters/{key}/values",
        "POST /filters/{key}/values/delete",
    );
    let replace = "POST /filters/{key}/values/replace";
    let query = "POST /filters/{key}/values/query";
    vec![
        Form::request("GET /filters/{key}/values", "1,024 rows", |_, it| {
            it.at("rows").query("item=0").zipped()
        }),
        each(add, "250,000 lines, packed", 4, |world, it, n| {
            let it = it.at("entered").once(n);
            it.text(entry_lines(world.many, n)).packed()
        }),
        each(add, "250,000 entries", 4, |world, it, n| {
            it.at("entered").json(format!(
                r#"{{"only_if_absent":true,"encoding":"base64","entries":[{}]}}"#,
                entries(world.many, n)
            ))
        }),
        each(add, "32 MiB of rows", 4, |world, it, n| {
            let rows = rows(world.many.min(8_000), n + 1);
            it.at("rowed").json(format!(r#"{{"entries":[{rows}]}}"#))
        }),
        each(delete, "250,000 lines, packed", 4, |world, it, n| {
            let it = it.at("entered").once(n);
            it.text(entry_lines(world.many, n)).packed()
        }),
        each(delete, "250,000 entries", 4, |world, it, n| {
            it.at("entered").json(format!(
                r#"{{"encoding":"base64","entries":[{}]}}"#,
                entries(world.many, n)
            ))
        }),
        each(replace, "250,000 lines, packed", 4, |world, it, n| {
            let lines = (0..world.many).map(|item| format!("{item}\t{n}\t{}\n", n + 1));
            it.at("entered").once(n).text(lines.collect()).packed()
        }),
        each(replace, "250,000 entries", 4, |world, it, n| {
            let of = |item: usize| format!(r#"{{"item":"{item:08}","from":{n},"to":{}}}"#, n + 1);
            let entries: Vec<String> = (0..world.many).map(of).collect();
            it.at("entered").json(format!(
                r#"{{"encoding":"base64","entries":[{}]}}"#,
                entries.join(",")
            ))
        }),
        Form::request(query, "1,048,576 values", |world, it| {
            let items: Vec<String> = (0..world.valued).map(|n| n.to_string()).collect();
            it.at("valued")
                .json(format!(r#"{{"counts":true,"items":{}}}"#, json!(items)))
        })
        .among_the_worst(),
        Form::request(query, "64 MiB of rows", |world, it| {
            let it = it.at("rows").text(lines(world.rowed, 0));
            it.packed().zipped()
        }),
        Form::request(query, "250,000 items of base64", |world, it| {
            let items = base64_items(world.many, 8);
            it.at("entered")
                .json(format!(r#"{{"encoding":"base64","items":[{items}]}}"#))
        }),
    ]
}

fn of_operations() -> Vec<Form> {
    let plain = |door| Form::request(door, "gzip", |_, it| it.zipped().or(404));
    let of_backup = |door: &'static str| {
        Form::new(door, "a whole one", move |world| {
            let asked = Request::to(door, "");
            let path = asked.path.replace("{id}", &world.backup);
            vec![Round::Http(vec![Request { path, ..asked }])]
        })
    };
    let mut all: Vec<Form> = ["GET /livez", "GET /readyz", "GET /cluster", "GET /caller"]
        .into_iter()
        .map(plain)
        .collect();
    all.extend([
        plain("GET /openapi.json").among_the_worst(),
        plain("GET /metrics"),
        plain("GET /admin/backups"),
        plain("GET /admin/clock"),
        plain("POST /admin/clock/confirm"),
        Form::request("POST /admin/backups", "again and again", |_, it| it.or(409)),
        of_backup("GET /admin/backups/{id}"),
        of_backup("GET /admin/backups/{id}/status"),
    ]);
    all
}

/// What is beside the description.
fn of_pages() -> Vec<Form> {
    ["GET /docs/swagger-ui-bundle.js", "GET /console"]
        .into_iter()
        .map(|door| Form::request(door, "gzip", |_, it| it.zipped()))
        .collect()
}
