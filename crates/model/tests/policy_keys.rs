//! The list of a policy's keys is what files are read with and cases are written with.

use opplab_model::experiment::parse_policy;
use opplab_model::policy::Policy;
use opplab_model::policy_keys::{POLICY_KEYS, PolicyValue};
use opplab_model::tree::{Value, to_json};

#[test]
fn every_key_reads_back_with_its_default() {
    for key in POLICY_KEYS {
        let value = key.value_in(&Policy::of_files());
        if matches!(value.value, Value::Table(_)) {
            continue;
        }
        let text = format!("{} = {}", key.name, to_json(&value).trim());
        let read = parse_policy("policy.toml", &text).unwrap_or_else(|error| panic!("{}: {error}", key.name));
        assert_eq!(read, Policy::of_files(), "{}", key.name);
    }
}

#[test]
fn every_listed_name_and_number_is_taken_and_no_other() {
    for key in POLICY_KEYS {
        let (good, bad) = match key.values {
            PolicyValue::Name(_)
            | PolicyValue::NameOrEmpty(_)
            | PolicyValue::Kernel
            | PolicyValue::FreqMax
            | PolicyValue::Epp => {
                let names = key.values.names().into_iter();
                (names.map(|name| format!("{name:?}")).collect(), "\"no-such-name\"".to_owned())
            }
            PolicyValue::OneOf(numbers) => (numbers.iter().map(u32::to_string).collect(), "17".to_owned()),
            PolicyValue::Int { min, max } => (vec![min.to_string(), max.to_string()], (u64::from(max) + 1).to_string()),
            PolicyValue::Bool => (vec!["true".to_owned(), "false".to_owned()], "1".to_owned()),
            PolicyValue::Limit => {
                (vec!["1200000".to_owned(), "{ big = 1200000, all = 900000 }".to_owned()], "\"1.2GHz\"".to_owned())
            }
            PolicyValue::Features => {
                (vec!["[\"NO_UTIL_EST\", \"NEXT_BUDDY\"]".to_owned()], "[\"NO_UTIL_EXT\"]".to_owned())
            }
            PolicyValue::IdleStates => (vec!["[\"C6\", \"C1E\"]".to_owned(), "\"C1E,C6\"".to_owned()], "6".to_owned()),
            PolicyValue::Text
            | PolicyValue::Tunables
            | PolicyValue::Gates
            | PolicyValue::Cpus
            | PolicyValue::Changes
            | PolicyValue::Proposals => continue,
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

#[test]
fn proposals_are_read_in_one_form_and_wrong_ones_refused_with_the_nearest() {
    let read = |text: &str| parse_policy("policy.toml", text);
    let policy = read("proposals = [\"headroom:percent=100\", \"lone-task\"]").expect("both are known");
    assert_eq!(policy.proposals, ["headroom", "lone-task"]);
    let refused = |text: &str| read(text).map(|_| ()).expect_err(text).to_string();
    let unknown = refused("proposals = [\"lone-tasks\"]");
    assert!(unknown.contains("policy.toml:1") && unknown.contains("did you mean `lone-task`"), "{unknown}");
    let unknown = refused("proposals = [\"headroom:percents=110\"]");
    assert!(unknown.contains("did you mean `percent`"), "{unknown}");
    assert!(refused("proposals = [\"headroom:percent=10\"]").contains("from 100 to 200"));
    assert!(refused("proposals = [\"headroom\", \"response-time\"]").contains("change the same thing"));
    assert!(refused("proposals = \"headroom\"").contains("list"));
    assert!(refused("pelt_half_life_ms = 8\nproposals = [\"pelt-multiplier\"]").contains("half-life of 4 ms"));
}
