//! What is known of models by their names: limits, and prices.
//!
//! Gateways and clouds spell one model in many ways: with the path of a provider, with a region and a vendor in front,
//! with a date, a version or a variant behind it, with points or dashes in its number. A name finds the row of its own
//! spelling, or else that of the same model, first at the provider that is named, then at the model's maker.

use crate::model::usage::{ModelWindow, Usage, WindowSource};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// The table that is built in; `packaging/models` makes it.
static BUILT_IN: LazyLock<Arc<Models>> =
    LazyLock::new(|| Arc::new(Models::parse(include_str!("models/table.tsv")).expect("a test reads this table")));

/// The columns of a table.
const COLUMNS: [&str; 13] = [
    "model",
    "provider",
    "context_tokens",
    "output_tokens",
    "input",
    "output",
    "cache_read",
    "cache_write",
    "above_tokens",
    "input_above",
    "output_above",
    "cache_read_above",
    "cache_write_above",
];

/// The context of the variant of a model whose name ends with `[1m]`.
const LONG_CONTEXT: (&str, i64) = ("[1m]", 1_000_000);

/// The largest share of the context that a request asks for as its reply: the context divided by this number.
const OUTPUT_PARTS: i64 = 4;

/// Providers by names that differ from those of the table.
const PROVIDERS: [(&str, &str); 4] =
    [("google", "gemini"), ("google-vertex", "vertex-ai"), ("openai-codex", "openai"), ("moonshotai", "moonshot")];

/// Ends of a name for the same model with other parameters.
const VARIANTS: [&str; 9] =
    ["-latest", "-high", "-medium", "-low", "-minimal", "-xhigh", "-none", "-thinking", "-preview"];

/// A table of models.
#[derive(Debug, Default)]
pub struct Models {
    rows: Vec<KnownModel>,
    by_name: HashMap<String, usize>,
    /// The rows of each model, by its name without provider, version and date.
    by_plain_name: HashMap<String, Vec<usize>>,
}

/// A model as a provider offers it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownModel {
    /// Its name in the table.
    pub name: String,
    /// The provider.
    pub provider: String,
    /// The most tokens of a request.
    pub context: i64,
    /// The most tokens of a reply, if that is known.
    pub output: Option<i64>,
    prices: Prices,
    /// The prices of requests with more tokens than this.
    above: Option<(i64, Prices)>,
}

/// US dollars for a million tokens; none where unknown.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Prices {
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

/// A line that is no row of a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct NoRow {
    /// The line's number, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

impl Models {
    /// The table that is built in.
    pub fn built_in() -> Arc<Self> {
        Arc::clone(&BUILT_IN)
    }

    /// Reads a table: columns separated by tabs, the first line that is no comment with their names.
    ///
    /// # Errors
    ///
    /// The first line that is none of a table.
    pub fn parse(text: &str) -> Result<Self, NoRow> {
        let mut models = Self::default();
        let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim_end()));
        let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let header = lines.next().unwrap_or((1, ""));
        if header.1.split('\t').ne(COLUMNS) {
            return Err(NoRow { line: header.0, what: format!("the columns are not {}", COLUMNS.join(", ")) });
        }
        for (line, text) in lines {
            models.add(row(text).map_err(|what| NoRow { line, what })?);
        }
        Ok(models)
    }

    fn add(&mut self, model: KnownModel) {
        let at = self.rows.len();
        self.by_plain_name.entry(plain(&model.name)).or_default().push(at);
        self.by_name.insert(model.name.clone(), at);
        self.rows.push(model);
    }

    /// The model with a name, at a provider if one is named. Where providers differ and none is named, that of its maker,
    /// or else the one with the smallest context.
    pub fn find(&self, provider: &str, name: &str) -> Option<KnownModel> {
        let name = name.trim().to_lowercase();
        let (name, long_context) = match name.strip_suffix(LONG_CONTEXT.0) {
            Some(name) => (name.to_owned(), LONG_CONTEXT.1),
            None => (name, 0),
        };
        let found = self.row(provider, &name)?;
        Some(KnownModel { context: found.context.max(long_context), ..found.clone() })
    }

    fn row(&self, provider: &str, name: &str) -> Option<&KnownModel> {
        let own = self.by_name.get(name).map(|at| &self.rows[*at]);
        if provider.is_empty() && own.is_some() {
            return own;
        }
        let mut hints = vec![provider.to_lowercase()];
        hints.extend(name.split('/').map(str::to_owned));
        hints.pop();
        let rank = |model: &KnownModel| {
            let at = hints.iter().position(|hint| is_provider(hint, &model.provider));
            at.unwrap_or(if base(&model.name) == model.name { hints.len() } else { hints.len() + 1 })
        };
        let plain_name = plain(name);
        let mut rows = self.by_plain_name.get(&plain_name);
        if rows.is_none() {
            let shorter = VARIANTS.iter().find_map(|variant| plain_name.strip_suffix(variant));
            rows = shorter.and_then(|name| self.by_plain_name.get(name));
        }
        let dated = base(name);
        let rows = rows.into_iter().flatten().map(|at| &self.rows[*at]);
        let best = rows.min_by_key(|model| {
            let is_same = base(&model.name) == dated;
            (rank(model), !is_same, model.context)
        });
        match (own, best) {
            // The row of this very spelling, unless it is of another provider than the one that has it too.
            (Some(own), Some(best)) if rank(best) < rank(own) => Some(best),
            (Some(own), _) => Some(own),
            (None, best) => best,
        }
    }

    /// Adds the limits of a window that has only the name of a model, if that is known. An output limit above a quarter of
    /// the context says what the model can write, not what a request asks for, and stays unknown.
    pub fn complete(&self, window: &mut ModelWindow) {
        if window.context != 0 || window.input.is_some_and(|input| input > 0) || window.model.is_empty() {
            return;
        }
        let Some(known) = self.find("", &window.model) else { return };
        window.context = known.context;
        let asked = known.output.filter(|output| *output <= known.context / OUTPUT_PARTS);
        window.output = window.output.or(asked);
        window.source = WindowSource::Models;
    }

    /// The usage of a reply with its cost, which is computed where none was reported and the model's prices are known.
    pub fn priced(&self, provider: &str, model: &str, usage: Usage) -> Usage {
        if usage.cost_usd.is_some() || model.is_empty() {
            return usage;
        }
        let cost_usd = self.find(provider, model).and_then(|model| model.cost_usd(&usage));
        Usage { cost_usd, cost_is_computed: cost_usd.is_some(), ..usage }
    }
}

impl KnownModel {
    /// The cost of a reply in US dollars; none if a price is missing. What a cache read or wrote costs as other input
    /// where the table has no price for it.
    pub fn cost_usd(&self, usage: &Usage) -> Option<f64> {
        let prices = match self.above {
            Some((tokens, prices)) if usage.prompt_tokens() > tokens => prices.or(self.prices),
            _ => self.prices,
        };
        let (input, output) = (prices.input?, prices.output?);
        let cost = usage.input as f64 * input
            + usage.cache_read as f64 * prices.cache_read.unwrap_or(input)
            + usage.cache_write as f64 * prices.cache_write.unwrap_or(input)
            + usage.output.saturating_add(usage.reasoning) as f64 * output;
        Some(cost / 1e6)
    }
}

impl Prices {
    /// These prices, or the others where one is unknown.
    fn or(self, others: Self) -> Self {
        Self {
            input: self.input.or(others.input),
            output: self.output.or(others.output),
            cache_read: self.cache_read.or(others.cache_read),
            cache_write: self.cache_write.or(others.cache_write),
        }
    }
}

fn row(text: &str) -> Result<KnownModel, String> {
    let mut values = [""; COLUMNS.len()];
    for (at, value) in text.split('\t').enumerate() {
        *values.get_mut(at).ok_or(format!("there are more than {} columns", COLUMNS.len()))? = value;
    }
    let [name, provider, context, output, rest @ ..] = values;
    let (name, provider) = (name.to_lowercase(), provider.to_lowercase());
    if name.is_empty() {
        return Err("the model has no name".to_owned());
    }
    let context = tokens("context_tokens", context)?.ok_or("context_tokens is missing")?;
    let output = tokens("output_tokens", output)?;
    let [input_price, output_price, cache_read, cache_write, above, prices_above @ ..] = rest;
    let own = prices([input_price, output_price, cache_read, cache_write])?;
    let above = match tokens("above_tokens", above)? {
        Some(tokens) => Some((tokens, prices(prices_above)?)),
        None => None,
    };
    Ok(KnownModel { name, provider, context, output, prices: own, above })
}

fn tokens(column: &str, value: &str) -> Result<Option<i64>, String> {
    match value {
        "" => Ok(None),
        value => match value.parse() {
            Ok(tokens) if tokens > 0 => Ok(Some(tokens)),
            _ => Err(format!("{column} is no number of tokens")),
        },
    }
}

fn prices(values: [&str; 4]) -> Result<Prices, String> {
    let price = |value: &str| match value {
        "" => Ok(None),
        value => match value.parse() {
            Ok(price) if (0.0..=1e6).contains(&price) => Ok(Some(price)),
            _ => Err(format!("{value:?} is no price")),
        },
    };
    let [input, output, cache_read, cache_write] = values.map(price);
    Ok(Prices { input: input?, output: output?, cache_read: cache_read?, cache_write: cache_write? })
}

/// True if a client's name of a provider means the one of a row, such as `amazon-bedrock` and `bedrock_converse`.
fn is_provider(named: &str, provider: &str) -> bool {
    let named = named.replace('_', "-");
    let named = PROVIDERS.iter().find(|(alias, _)| *alias == named).map_or(named.as_str(), |(_, name)| name);
    let provider = provider.replace('_', "-");
    let stem = |name: &str| name.split('-').find(|piece| !["amazon", "aws", "ai"].contains(piece)).map(str::to_owned);
    !named.is_empty() && (provider == named || stem(&provider) == stem(named))
}

/// A name without the path of a provider, a region and a vendor in front, and a variant behind a colon or an at sign.
fn base(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let fine_tuned = last.strip_prefix("ft:").unwrap_or(last);
    let mut base = fine_tuned.split([':', '@']).next().unwrap_or(fine_tuned);
    let mut is_cut = base.len() < fine_tuned.len();
    while let Some((vendor, rest)) = base.split_once('.')
        && !rest.is_empty()
        && vendor.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
    {
        (base, is_cut) = (rest, true);
    }
    // The version of a cloud: the names of some models end with a version as well.
    if is_cut
        && let Some((model, version)) = base.rsplit_once("-v")
        && model.bytes().any(|byte| byte.is_ascii_digit())
        && version.bytes().all(|byte| byte.is_ascii_digit())
    {
        base = model;
    }
    base.replace(['.', '_'], "-")
}

/// The base of a name without a date behind it.
fn plain(name: &str) -> String {
    let base = base(name);
    let is_date = |tail: &[&str]| {
        let lengths: Vec<usize> = tail.iter().map(|piece| piece.len()).collect();
        let is_number = tail.iter().all(|piece| piece.bytes().all(|byte| byte.is_ascii_digit()));
        is_number && (lengths == [8] || lengths == [4, 2, 2])
    };
    let pieces: Vec<&str> = base.split('-').collect();
    let dated = [1, 3].into_iter().find(|count| pieces.len() > *count && is_date(&pieces[pieces.len() - count..]));
    pieces[..pieces.len() - dated.unwrap_or(0)].join("-")
}

#[cfg(test)]
mod tests;
