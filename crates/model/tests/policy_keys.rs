//! The list of a policy's keys is what files are read with and cases are written with.

use opplab_model::experiment::parse_policy;
use opplab_model::policy::Policy;
use opplab_model::policy_keys::{POLICY_KEYS, PolicyValue};
use opplab_model::tree::{Value, to_json};

#[test]
fn every_key_reads_back_with_its_default() {
    for key in POLICY_KEYS {
        let value = key.value_in(&Policy::default());
        if matches!(value.value, Value::Table(_)) {
            continue;
        }
        let text = format!("{} = {}", key.name, to_json(&value).trim());
        let read = parse_policy("policy.toml", &text).unwrap_or_else(|error| panic!("{}: {error}", key.name));
        assert_eq!(read, Policy::default(), "{}", key.name);
    }
}

#[test]
fn every_listed_name_and_number_is_taken_and_no_other() {
    for key in POLICY_KEYS {
        let (good, bad) = match key.values {
            PolicyValue::Name(names) | PolicyValue::NameOrEmpty(names) => {
                (names().iter().map(|name| format!("{name:?}")).collect(), "\"no-such-name\"".to_owned())
            }
            PolicyValue::OneOf(numbers) => (numbers.iter().map(u32::to_string).collect(), "17".to_owned()),
            PolicyValue::Int { min, max } => (vec![min.to_string(), max.to_string()], (u64::from(max) + 1).to_string()),
            PolicyValue::Bool => (vec!["true".to_owned(), "false".to_owned()], "1".to_owned()),
            PolicyValue::Text | PolicyValue::Table | PolicyValue::Cpus => continue,
        };
        for value in good {
            let text = format!("{} = {value}", key.name);
            assert!(parse_policy("policy.toml", &text).is_ok(), "{text}");
        }
        let text = format!("{} = {bad}", key.name);
        assert!(parse_policy("policy.toml", &text).is_err(), "{text}");
    }
}

#[test]
fn every_key_has_words() {
    for key in POLICY_KEYS {
        assert!(!key.about.is_empty() && !key.values.words().is_empty(), "{}", key.name);
    }
}
