use super::*;
use http_body_util::BodyExt as _;

async fn text(
    format: Format,
    words: &[Word],
    blanks: &[usize],
    full: Option<FullReason>,
) -> String {
    let response = results(format, words.iter().copied(), blanks, full, None).await;
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn results_stay_aligned_with_blank_lines() {
    let words = [Word::Name("added"), Word::Flag(true), Word::Number(7)];
    assert_eq!(
        text(Format::Json, &words, &[0, 2, 5], None).await,
        "{\"results\":[null,\"added\",null,true,7,null]}\n"
    );
    assert_eq!(
        text(Format::Lines, &words, &[0, 2, 5], None).await,
        "\nadded\n\ntrue\n7\n\n"
    );
    assert_eq!(
        text(Format::Json, &[], &[], None).await,
        "{\"results\":[]}\n"
    );
    assert_eq!(text(Format::Lines, &[], &[], None).await, "");
}

#[tokio::test]
async fn a_full_filter_says_why_and_what_to_do() {
    for reason in [
        FullReason::ExpansionOff,
        FullReason::MaxExpansions,
        FullReason::MaxFilterBytes,
    ] {
        let answer = text(Format::Json, &[Word::Name("full")], &[], Some(reason)).await;
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(
            answer["full_reason"],
            serde_json::json!(words::FullReason::from(reason))
        );
        assert_eq!(answer["full_detail"], advice(reason));
    }
}

#[tokio::test]
async fn no_answer_to_a_change_is_larger_than_announced() {
    for reason in [
        FullReason::ExpansionOff,
        FullReason::MaxExpansions,
        FullReason::MaxFilterBytes,
    ] {
        for name in ["added", "refreshed", "exists", "full"] {
            for items in [1, 1000] {
                let words = vec![Word::Name(name); items];
                let longest = text(Format::Json, &words, &[0, 5, 6], Some(reason)).await;
                assert!(longest.len() <= most_bytes(items + 3));
            }
        }
    }
}

#[tokio::test]
async fn flags_are_written_as_words_are() {
    let long: Vec<bool> = (0..2 * WORDS_AT_ONCE + 1).map(|n| n % 3 == 0).collect();
    for answers in [&[][..], &[true], &[false], &[false, true, true], &long] {
        let words: Vec<Word> = answers.iter().copied().map(Word::Flag).collect();
        for format in [Format::Json, Format::Lines] {
            let body = flags(format, answers, &[], None).await.into_body();
            let bytes = body.collect().await.unwrap().to_bytes();
            let written = String::from_utf8(bytes.to_vec()).unwrap();
            let expected: Vec<String> = answers.iter().map(bool::to_string).collect();
            let expected = match format {
                Format::Json => format!("{{\"results\":[{}]}}\n", expected.join(",")),
                Format::Lines => expected.iter().map(|word| format!("{word}\n")).collect(),
            };
            assert_eq!(written, expected);
            assert_eq!(text(format, &words, &[], None).await, expected);
        }
    }
}

#[test]
fn a_number_is_written_as_others_write_it() {
    for number in [0, 1, 9, 10, 99, 100, 12_345_678_901, u64::MAX] {
        let mut body = b"[".to_vec();
        put_number(&mut body, number);
        assert_eq!(String::from_utf8(body).unwrap(), format!("[{number}"));
    }
}

#[test]
fn lines_come_only_to_those_who_ask_first_for_them() {
    for (accept, format) in [
        ("text/plain", Format::Lines),
        ("text/plain;q=0.9, */*", Format::Lines),
        ("application/json, text/plain, */*", Format::Json),
        ("*/*", Format::Json),
        ("image/png", Format::Json),
    ] {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        assert_eq!(Format::wanted(&headers), format, "{accept}");
    }
}
