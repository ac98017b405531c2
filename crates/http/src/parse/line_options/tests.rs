use super::*;
use crate::chain::params::LayoutKind;

#[test]
fn options_of_lines_stand_in_the_query() {
    let uri = Uri::from_static(
        "/?only_if_absent=true&create=true&capacity=10&layout=classic&encoding=base64",
    );
    let options = line_options(BatchKind::Add, &uri).unwrap();
    assert_eq!(options.encoding, Encoding::Base64);
    let options = options.add;
    assert_eq!(options.mode, AddMode::OnlyIfAbsent);
    let create = options.create.unwrap();
    assert_eq!(create.params.capacity, Some(10));
    assert_eq!(create.params.layout, Some(LayoutKind::Classic));

    for uri in [
        "/?capacity=10",
        "/?create=1",
        "/?create=true&capacity=x",
        "/?create=true&capacity=",
        "/?items=a",
    ] {
        assert!(
            line_options(BatchKind::Add, &Uri::from_static(uri)).is_err(),
            "{uri}"
        );
    }
    let create = Uri::from_static("/?create=true");
    assert!(line_options(BatchKind::Question, &create).is_err());
}

#[test]
fn columns_and_conditions_stand_in_the_query_too() {
    let of = |kind, query: &str| line_options(kind, &format!("/?{query}").parse().unwrap());
    let options = of(BatchKind::ReplaceValues, "attributes=plan,tag").unwrap();
    assert_eq!(options.columns, ["plan", "tag"]);
    let options = of(BatchKind::Exists, "where=%7B%22plan%22:[%22pro%22]%7D").unwrap();
    let expected = Where(vec![("plan".to_owned(), vec!["pro".to_owned()])]);
    assert_eq!(options.condition, Some(expected));
    for (kind, query) in [
        (BatchKind::AddValues, "attributes=a,b,a"),
        (BatchKind::AddValues, "attributes=a,b,c,d,e,f,g,h,i"),
        (BatchKind::Delete, "attributes=a"),
        (BatchKind::Exists, "attributes=a"),
        (BatchKind::Exists, "where=%7B%7D"),
        (BatchKind::DeleteValues, "where=%7B%22a%22:[%22b%22]%7D"),
    ] {
        assert!(of(kind, query).is_err(), "{query}");
    }
}
