//! Rust text without its comments and literals, so that a word search finds code only.

/// The text with every comment, string and character literal replaced by spaces. Line breaks
/// stay, so lines keep their numbers.
pub(super) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        if let Some(end) = skipped_until(&chars, at) {
            let blank = |c: &char| if *c == '\n' { '\n' } else { ' ' };
            code.extend(chars[at..end].iter().map(blank));
            at = end;
        } else {
            code.push(chars[at]);
            at += 1;
        }
    }
    code
}

/// Whether a character can be part of an identifier.
pub(super) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Byte offsets at which `word` stands as a whole identifier.
pub(super) fn find_words(code: &str, word: &str) -> Vec<usize> {
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(|&at| {
            !code[..at].ends_with(is_word) && !code[at + word.len()..].starts_with(is_word)
        })
        .collect()
}

/// The line, from one, of a byte offset.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// The end of the comment or literal that starts at `at`, if one does.
fn skipped_until(chars: &[char], at: usize) -> Option<usize> {
    let rest = &chars[at..];
    match rest {
        ['/', '/', ..] => Some(at + position(rest, |c| c == '\n')),
        ['/', '*', ..] => Some(at + block_comment(rest)),
        ['"', ..] => Some(at + string(rest, '"')),
        ['\'', '\\', ..] | ['\'', _, '\'', ..] => Some(at + string(rest, '\'')),
        _ if at > 0 && is_word(chars[at - 1]) => None,
        ['r', ..] => raw_string(rest, 1).map(|length| at + length),
        ['b' | 'c', 'r', ..] => raw_string(rest, 2).map(|length| at + length),
        _ => None,
    }
}

/// How many characters come before the first that satisfies `stop` (all, if none does).
fn position(chars: &[char], stop: impl Fn(char) -> bool) -> usize {
    chars.iter().position(|&c| stop(c)).unwrap_or(chars.len())
}

/// The length of a block comment; they nest.
fn block_comment(chars: &[char]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < chars.len() {
        match &chars[at..] {
            ['/', '*', ..] => {
                depth += 1;
                at += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    chars.len()
}

/// The length of a literal between two `quote`s with backslash escapes.
fn string(chars: &[char], quote: char) -> usize {
    let mut at = 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// The length of a raw string whose prefix has `prefix` letters; `None` if it is none.
fn raw_string(chars: &[char], prefix: usize) -> Option<usize> {
    let hashes = position(&chars[prefix..], |c| c != '#');
    let open = prefix + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let mut at = open + 1;
    while at < chars.len() {
        let closes = chars[at] == '"'
            && chars.len() >= at + 1 + hashes
            && chars[at + 1..at + 1 + hashes].iter().all(|&c| c == '#');
        if closes {
            return Some(at + 1 + hashes);
        }
        at += 1;
    }
    Some(chars.len())
}

#[cfg(test)]
mod tests {
    use super::{code_only, find_words, line_of};

    /// The words that survive.
    fn words(text: &str) -> Vec<String> {
        let code = code_only(text);
        let words = code.split(|c: char| !super::is_word(c));
        words.filter(|w| !w.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn comments_and_literals_vanish_and_code_stays() {
        assert_eq!(words("a // b\nc"), ["a", "c"]);
        assert_eq!(words("a /* b /* c */ d */ e"), ["a", "e"]);
        assert_eq!(words(r#"a "b \" c" d"#), ["a", "d"]);
        assert_eq!(words(r##"a r#"b " c"# d"##), ["a", "d"]);
        assert_eq!(words(r##"a br#"b"# cr"c" b"d" e"##), ["a", "b", "e"]);
        assert_eq!(words(r"a '\'' b 'c' d"), ["a", "b", "d"]);
    }

    #[test]
    fn lifetimes_raw_identifiers_and_words_ending_in_r_are_code() {
        assert_eq!(
            words("fn f<'a>(x: &'a T) {}"),
            ["fn", "f", "a", "x", "a", "T"]
        );
        assert_eq!(words("r#type x"), ["r", "type", "x"]);
        assert_eq!(words("for \"x\" y"), ["for", "y"]);
    }

    #[test]
    fn unfinished_literals_reach_the_end_without_a_panic() {
        for text in ["\"a\\", "r#\"a\"", "/* a", "'\\", "r", "br##", "'"] {
            assert_eq!(code_only(text).chars().count(), text.chars().count());
        }
    }

    #[test]
    fn lines_keep_their_numbers() {
        let code = code_only("/* a\n b */\n\"c\nd\"\nfaer");
        assert_eq!(line_of(&code, find_words(&code, "faer")[0]), 5);
    }

    #[test]
    fn only_whole_words_are_found() {
        assert_eq!(find_words("faer faer_x xfaer faer::Mat", "faer"), [0, 18]);
    }
}
