//! What is asked of `filter`.

use crate::client::remote::{ServerAddress, path_part};
use clap::{Args, Subcommand};
use serde_json::Value;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

/// Which server, and what it is asked.
#[derive(Debug, Args)]
pub struct FilterOptions {
    /// The server.
    #[command(flatten)]
    pub server: ServerAddress,

    /// Print JSON: a description as the server answers it, one line for each filter of a list, one line for each item.
    #[arg(long, global = true)]
    pub json: bool,

    /// Seconds for which a request is sent again while the server does not answer, or is busy. A change is made once.
    #[arg(long, global = true, default_value_t = 10)]
    pub patience_seconds: u64,

    /// Ask this file in place of a server: `exists`, `count`, `values` and `describe`. No key is named then.
    #[arg(long = "file", global = true, value_name = "FILE")]
    pub in_file: Option<PathBuf>,

    /// The key of the hash, of a file that it was left out of: in a file, as 32 hexadecimal digits.
    #[arg(long, global = true, value_name = "FILE")]
    pub key_file: Option<PathBuf>,

    /// The operation.
    #[command(subcommand)]
    pub command: FilterCommand,
}

/// Operations on filters and their items.
#[derive(Debug, Subcommand)]
pub enum FilterCommand {
    /// List filters, in byte order of their keys.
    #[command(visible_alias = "list")]
    Ls {
        /// Only those whose keys start with this.
        #[arg(default_value = "")]
        prefix: String,
    },
    /// Create a filter, and describe it. Nothing changes if it exists with these parameters.
    #[command(visible_alias = "new")]
    Create {
        /// Key of the filter.
        #[arg(value_parser = path_part)]
        key: String,
        /// Parameters, such as capacity=100000 error_rate=0.001 ttl_seconds=3600: the fields that PUT /filters/{key} takes. The server's defaults fill in the others.
        #[arg(value_name = "FIELD=VALUE")]
        fields: Vec<Field>,
        /// Refuse a filter that exists already.
        #[arg(long)]
        only_new: bool,
    },
    /// Describe a filter: its parameters, how full it is, its false-positive rate.
    #[command(visible_aliases = ["show", "describe"])]
    Info {
        /// Key of the filter.
        #[arg(value_parser = path_part, required_unless_present = "in_file")]
        key: Option<String>,
    },
    /// Delete filters with all that is in them, one after another, up to the first that is refused.
    #[command(visible_aliases = ["drop", "remove"])]
    Rm {
        /// Keys of the filters.
        #[arg(required = true, value_parser = path_part)]
        keys: Vec<String>,
    },
    /// Let a filter expire after so long, or never, and describe it.
    #[command(visible_alias = "ttl")]
    Expire {
        /// Key of the filter.
        #[arg(value_parser = path_part)]
        key: String,
        /// Seconds, a time such as 12h or 90d, or never.
        after: Lifetime,
    },
    /// Write a filter into a file, from which `restore` makes the same filter.
    Dump {
        /// Key of the filter.
        #[arg(value_parser = path_part)]
        key: String,
        /// File to write, which appears when it is complete; - for the standard output, as without one.
        file: Option<PathBuf>,
        /// Leave the key of the hash out. Who asks the file has to have it from elsewhere, and it can't be restored.
        #[arg(long)]
        without_key: bool,
    },
    /// Make a filter from a dump, and describe it.
    Restore {
        /// Key of the filter.
        #[arg(value_parser = path_part)]
        key: String,
        /// File of the dump; - for the standard input.
        file: PathBuf,
        /// Replace a filter that exists. With API keys this needs one of the scope admin.
        #[arg(long)]
        replace: bool,
    },
    /// Print for each item the keys of those filters that contain it. Each can be a false positive.
    Lookup {
        /// Keys of the filters that are asked.
        #[arg(
            long,
            value_name = "KEY,KEY…",
            value_delimiter = ',',
            required_unless_present = "prefix",
            conflicts_with = "prefix"
        )]
        filters: Vec<String>,
        /// Ask the filters whose keys start with this.
        #[arg(long)]
        prefix: Option<String>,
        /// Stop at the first filter that contains the item.
        #[arg(long)]
        first: bool,
        /// Items [default: the lines of the standard input, without blank ones].
        #[arg(value_name = "ITEM")]
        items: Vec<OsString>,
    },
    /// Add items, and print for each `added`, `exists` or `full`. Exit code 1 if one is `full`.
    #[command(visible_alias = "insert")]
    Add {
        /// The filter and the items.
        #[command(flatten)]
        of: Entries,
        /// Do not add items that the filter already contains.
        #[arg(long)]
        only_if_absent: bool,
    },
    /// Print for each item whether the filter contains it. False is certain, true can be a false positive.
    #[command(visible_aliases = ["check", "contains"])]
    Exists {
        /// The filter and the items.
        #[command(flatten)]
        of: Entries,
        /// Print nothing: exit code 0 if the filter contains all items, 1 if one is absent.
        #[arg(long, short)]
        quiet: bool,
        /// Of a filter with a window: ask whether each item was seen within the last so many seconds, at most the window [default: within the window].
        #[arg(long, value_name = "SECONDS", conflicts_with_all = ["values", "attributes"])]
        within_seconds: Option<u64>,
        /// Of a filter with attributes: ask whether one row of each item has one of the listed values of every attribute that is named, such as {"plan": ["pro"], "tag": ["DE", "AT"]}.
        #[arg(long = "where", value_name = "JSON", value_parser = condition, conflicts_with_all = ["values", "attributes"])]
        condition: Option<Value>,
    },
    /// Print for each item how many copies the filter contains.
    Count(Items),
    /// Delete one copy of each item, and print whether there was one. Delete only what was added. (A filter is deleted by `rm`.)
    #[command(visible_alias = "del")]
    Delete(Entries),
    /// Have each item have one value, or row, in place of another, and print `replaced`, `absent` if it was not found with the old one, or `full`. Exit code 1 if one is `full`. Replace only what was added.
    Replace {
        /// The filter and the items: behind each come a TAB and the old value, a TAB and the new one.
        #[command(flatten)]
        of: Items,
        /// Behind each item come a TAB and a value for each of these attributes: the old row, and then the new one likewise.
        #[arg(long, value_name = "NAME,NAME…")]
        attributes: Option<Columns>,
    },
    /// Print the values of each item, in ascending order with spaces between them, or its rows as JSON objects. Those of other items can be among them.
    Values(Items),
}

/// Items of a filter, or entries of one with values or attributes.
#[derive(Debug, Args)]
pub struct Entries {
    /// The filter and the items.
    #[command(flatten)]
    pub of: Items,
    /// Behind each item come a TAB and a value.
    #[arg(long)]
    pub values: bool,
    /// Behind each item comes its row: a TAB and a value for each of these attributes.
    #[arg(long, value_name = "NAME,NAME…", conflicts_with = "values")]
    pub attributes: Option<Columns>,
}

/// The attributes whose values stand behind an item, in this order.
#[derive(Clone, Debug)]
pub struct Columns(pub Vec<String>);

impl FromStr for Columns {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Columns, Self::Err> {
        let names: Vec<String> = text.split(',').map(str::to_owned).collect();
        let mut seen = HashSet::new();
        match names.iter().all(|it| !it.is_empty() && seen.insert(it)) {
            true => Ok(Columns(names)),
            false => Err("write the names of the attributes with commas between them, each once"),
        }
    }
}

/// Items of a filter.
#[derive(Debug, Args)]
pub struct Items {
    /// Key of the filter.
    #[arg(value_parser = path_part, required_unless_present = "in_file")]
    pub key: Option<String>,
    /// Items [default: the lines of the standard input, without blank ones].
    #[arg(value_name = "ITEM")]
    pub items: Vec<OsString>,
}

impl Items {
    /// The key of a server's filter.
    pub(super) fn key(&self) -> &str {
        self.key.as_deref().unwrap_or_default()
    }

    /// All that is named, where a file is asked: that has no key.
    pub(super) fn of_file(&self) -> Vec<OsString> {
        let first = self.key.iter().map(OsString::from);
        first.chain(self.items.iter().cloned()).collect()
    }
}

/// After how many seconds a filter expires; `None`: never.
#[derive(Clone, Copy, Debug)]
pub struct Lifetime(pub Option<u64>);

impl FromStr for Lifetime {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Lifetime, Self::Err> {
        let time = |text| humantime::parse_duration(text).map(|it| it.as_secs());
        match text {
            "never" => Ok(Lifetime(None)),
            _ => text
                .parse()
                .or_else(|_| time(text))
                .map(|it| Lifetime(Some(it))),
        }
        .map_err(|_| "write seconds, a time such as 12h or 90d, or never")
    }
}

/// A condition on rows.
fn condition(text: &str) -> Result<Value, &'static str> {
    serde_json::from_str(text)
        .ok()
        .filter(Value::is_object)
        .ok_or(r#"write it as a JSON object with a list for each attribute, such as {"plan": ["pro"]}"#)
}

/// A parameter of a filter. Its value is JSON, or else a string.
#[derive(Clone, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Value,
}

impl FromStr for Field {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Field, Self::Err> {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or("write it as FIELD=VALUE, such as capacity=100000")?;
        Ok(Field {
            name: name.to_owned(),
            value: serde_json::from_str(value).unwrap_or_else(|_| Value::from(value)),
        })
    }
}
