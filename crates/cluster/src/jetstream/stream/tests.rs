use super::*;

fn founding() -> Founding {
    Founding {
        cluster: ClusterName::new("shop").unwrap(),
        founding: [1; 16],
        epoch: 2,
        lanes: 8,
        copies: 3,
    }
}

#[test]
fn a_name_that_no_subject_could_have_is_refused() {
    for name in ["shop", "a", "A-b_9", &"x".repeat(32)] {
        assert_eq!(ClusterName::new(name).unwrap().to_string(), name);
    }
    for name in ["", "a.b", "a b", "a*", ">", "ä", &"x".repeat(33)] {
        assert!(ClusterName::new(name).is_err(), "{name:?}");
    }
}

#[test]
fn a_stream_that_was_changed_so_that_it_could_lose_records_is_refused() {
    let founding = founding();
    compare(&founding.config(), &founding.config()).unwrap();
    let copies = Config {
        num_replicas: 5,
        ..founding.config()
    };
    compare(&copies, &founding.config()).unwrap();
    type Edit = fn(&mut Config);
    let edits: [(&str, Edit); 7] = [
        ("discard", |it| it.discard = DiscardPolicy::Old),
        ("max_msgs", |it| it.max_messages = 1000),
        ("max_age", |it| it.max_age = Duration::from_secs(60)),
        ("storage", |it| it.storage = StorageType::Memory),
        ("subjects", |it| it.subjects.push("other".to_owned())),
        ("allow_rollup_hdrs", |it| it.allow_rollup = true),
        ("no_ack", |it| it.no_ack = true),
    ];
    for (name, edit) in edits {
        let mut config = founding.config();
        edit(&mut config);
        let refused = compare(&config, &founding.config())
            .unwrap_err()
            .to_string();
        assert!(refused.contains(&format!("has {name} ")), "{refused}");
    }
}
