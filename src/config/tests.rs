use super::{Cli, Command, Machine, ServeConfig};
use crate::chain::params::Defaults;
use crate::engine::DiskReserve;
use crate::server::HostPolicy;
use clap::{CommandFactory as _, Parser as _};

const MACHINE: Machine = Machine {
    memory_bytes: 4 << 30,
    cores: 2,
};

fn config(flags: &[&str]) -> ServeConfig {
    let line = ["cuckood", "serve"].iter().chain(flags);
    match Cli::try_parse_from(line).unwrap().command {
        Command::Serve(config) => *config,
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_flag_at_all_is_sensible() {
    let settings = config(&[]).settings(&MACHINE).unwrap();
    assert_eq!(settings.engine.cache_bytes, 1 << 30);
    assert_eq!(settings.engine.max_dirty_bytes, 256 << 20);
    assert_eq!(settings.engine.lanes, 2);
    assert_eq!(settings.engine.disk_reserve, DiskReserve::Usual);
    assert_eq!(settings.engine.defaults, Defaults::default());
    assert_eq!(settings.limits.max_body_bytes, 32 << 20);
    assert_eq!(settings.hosts, HostPolicy::LocalOnly);
}

#[test]
fn bad_combinations_are_refused_all_at_once() {
    let errors = config(&[
        "--listen=0.0.0.0:80",
        "--max-body-bytes=1GiB",
        "--cache-bytes=1MiB",
        "--default-bucket-size=256",
        "--max-batch-items=2000000",
        "--max-open-filters=999",
        "--backup-dir=./data/backups",
        "--backup-keep=0",
        "--max-connections=0",
    ])
    .settings(&MACHINE)
    .unwrap_err();
    for flag in [
        "--listen",
        "--max-buffered-bytes",
        "--cache-bytes",
        "--default-bucket-size",
        "--max-queued-items",
        "--max-open-filters",
        "--backup-dir",
        "--backup-keep",
        "--max-connections",
    ] {
        assert!(
            errors.0.iter().any(|error| error.starts_with(flag)),
            "{flag}: {errors}"
        );
    }
}

#[test]
fn two_of_the_largest_batches_find_a_place_in_a_queue() {
    let settings = |queued: &str| {
        let queued = format!("--max-queued-items={queued}");
        config(&[&queued, "--max-batch-items=30000"]).settings(&MACHINE)
    };
    assert!(settings("60000").is_ok());
    let refused = settings("59999").unwrap_err().to_string();
    assert!(
        refused.contains("twice --max-batch-items 30000"),
        "{refused}"
    );
    assert!(refused.contains("increase it to 60000"), "{refused}");
}

#[test]
fn any_address_is_listened_on_when_that_was_asked_for() {
    let hosts = |more: &[&str]| {
        let flags = [&["--listen=0.0.0.0:80", "--allow-anonymous"], more].concat();
        config(&flags).settings(&MACHINE).unwrap().hosts
    };
    assert_eq!(hosts(&[]), HostPolicy::AddressesAnd(Vec::new()));
    let named = HostPolicy::AddressesAnd(vec!["a".to_owned()]);
    assert_eq!(hosts(&["--allowed-host=a"]), named);
}

#[test]
fn any_address_is_listened_on_when_there_are_keys() {
    let flags = ["--listen=0.0.0.0:80", "--keys-file=keys.json"];
    let settings = config(&flags).settings(&MACHINE).unwrap();
    assert_eq!(settings.hosts, HostPolicy::Any);
    let both = config(&["--keys-file=keys.json", "--allow-anonymous"]);
    let errors = both.settings(&MACHINE).unwrap_err();
    assert!(errors.to_string().contains("--allow-anonymous contradicts"));
}

#[test]
fn names_to_be_called_by_are_listed() {
    let hosts = |flags: &[&str]| config(flags).settings(&MACHINE).map(|it| it.hosts);
    let listed =
        |names: &[&str]| HostPolicy::LocalAnd(names.iter().copied().map(str::to_owned).collect());
    assert_eq!(
        hosts(&["--allowed-host=a.example,b", "--allowed-host=[fd00::1]"]),
        Ok(listed(&["a.example", "b", "[fd00::1]"]))
    );
    assert_eq!(
        hosts(&["--keys-file=keys.json", "--allowed-host=a"]),
        Ok(listed(&["a"]))
    );
    for wrong in ["", "a:80", "http://a", "a/b", "u@a"] {
        assert!(
            hosts(&[&format!("--allowed-host={wrong}")]).is_err(),
            "{wrong}"
        );
    }
}

#[test]
fn every_flag_stands_under_a_heading_and_has_a_variable() {
    let cli = Cli::command();
    let serve = cli.find_subcommand("serve").unwrap();
    let flags: Vec<_> = serve.get_arguments().collect();
    assert!(flags.len() > 50);
    for flag in flags {
        let name = flag.get_long().unwrap();
        assert!(flag.get_help_heading().is_some(), "--{name}");
        let variable = format!("CUCKOOD_{}", name.to_uppercase().replace('-', "_"));
        assert_eq!(flag.get_env().unwrap(), &*variable);
    }
}

#[test]
fn a_number_that_is_none_is_told_what_is_allowed() {
    let refused = |line: &[&str]| {
        let command = super::cli::each_flag(Cli::command(), &super::cli::says_what_is_allowed);
        command.try_get_matches_from(line).unwrap_err().to_string()
    };
    for copies in ["0", "2", "x"] {
        let error = refused(&["cuckood", "cluster", "found", "--copies", copies]);
        assert!(error.contains("1, 3 or 5"), "{error}");
    }
    let error = refused(&["cuckood", "build", "list", "--error-rate", "0,001"]);
    assert!(error.contains("not a number such as 0.001"), "{error}");
}
