//! What a sentence of an error means: what is refused (a subject), and why (an excess, a limit in a time, an account).
//!
//! Sentences differ from provider to provider and from version to version; their subjects and their excesses hardly do.
//! What looks alike is told apart first: rates, accounts, output, parameters.

use super::kinds::Kind::{self, Busy, Invalid, Media, Quota, Rate, TooLarge, TooLong};
use super::text::pattern;
use regex::{Captures, Regex};
use std::sync::LazyLock;

/// The meaning of a sentence or of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) kind: Kind,
    /// False if the words could mean something else beside other words, codes or statuses.
    pub(super) is_sure: bool,
}

/// The words of a class, in sentences as `text::sentence` writes them.
macro_rules! words {
    ($name:ident, $($pattern:expr),+ $(,)?) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| pattern(&[$($pattern),+].join("|")));
    };
}

// Limits in a time.
words!(
    RATE,
    r"\bper[ -](?:\d+ )?(?:minute|min\b|second|sec\b|hour|day|month)",
    r"/ ?(?:minute|min|sec|second|s|hour|day)\b",
    r"\b[tr]p[mdhs]\b",
    r"\brate[ -]?limit",
    r"\btoo many (?:\w+ )?requests",
    r"throttl",
    r"\bconcurren",
    r"slow down",
    r"\bretry (?:in|after)\b",
    r"\btry again (?:in|after) (?:about )?\d",
    r"resource (?:has been )?exhausted",
    r"quota exceeded for",
    r"token rate\b|rate of tokens",
    r"requests? rate",
    r"\bin flight\b|being processed",
    r"速率|频率|频繁|限流|限速|并发|每分钟|每秒|每小时|每天|请求次数|请求数",
    r"レート制限|リクエストが多すぎ|リクエスト数",
    r"요청이 너무 많|속도 제한|요청 한도"
);
// Accounts and their plans.
words!(
    QUOTA,
    r"\bcredits?\b",
    r"\bbalance\b",
    r"\bbilling\b",
    r"\bpayment|\bpaid\b|purchase",
    r"\bquota",
    r"subscri",
    r"insufficient fund",
    r"\b(?:your|current|free|paid|pro|this|token|coding|usage|pricing|basic|starter|team) plan\b",
    concat!(
        r"\bplans?\b[a-z ]{0,20}\b(?:limit|allow|support)|\blimit\w* (?:of|for|on|in) (?:the |",
        r"your )?(?:\w+ )?plan\b"
    ),
    r"\bupgrade|\btier\b",
    r"\btop up\b",
    concat!(
        r"\b(?:daily|weekly|monthly|hourly|usage|spend\w*|account|organi[sz]ation|org|user|trial|",
        r"\d+-hour|api key|project)s? (?:(?:token|usage|spend|request|input)s? )*(?:limit|quota|",
        r"allowance|cap\b|budget)"
    ),
    r"\bthis (?:month|week)\b|\btoday\b",
    r"\bafford\b",
    r"extra usage",
    r"\btokens? (?:remaining|left)\b",
    r"余额|额度|欠费|配额|套餐|充值|账户|本月|今日|订阅",
    r"クレジット|残高|プラン",
    r"크레딧|요금제|잔액"
);
words!(
    BUSY,
    r"overload",
    r"\bunavailable",
    r"bad gateway|gateway time",
    r"time(?:d)?[ -]?out",
    r"\bat capacity|no capacity",
    r"(?:internal|server) error",
    r"\btry again later|\bplease wait|\bwait before|\btry again in\b",
    r"稍后|过载|繁忙|饱和|超时",
    r"しばらく",
    r"잠시 후"
);
// What the caller may do later, which says that the request itself is not at fault.
words!(
    WAIT,
    concat!(
        r"\btry again later|\btry again in\b|\bplease wait|\bwait (?:before|until|for)|\bretry later|",
        r"\bresets?\b|稍后|しばらく|잠시 후"
    ),
    r"service unavailable"
);

// What a request has to say to the model.
words!(
    INPUT,
    r"\bprompts?\b",
    r"\binputs?\b",
    r"\bcontexts?\b",
    r"\bconversations?\b",
    r"\bmessages?\b",
    r"\bhistory\b",
    r"\bchats?\b",
    r"\btranscript",
    r"\bsequences?\b",
    r"\bseq len",
    r"\bn ctx\b|\bn keep\b",
    r"\bkv\b|\bprefill",
    r"\bquer(?:y|ies)\b",
    r"\btruncat\w+ (?:to|prompt)\b",
    r"输入|提示|上下文|消息|对话|会话|内容|文本",
    r"プロンプト|入力|コンテキスト|メッセージ|会話",
    r"입력|프롬프트|컨텍스트|메시지|대화",
    r"\beingabe|\bkontext|\bnachricht",
    r"\bentrada|\bcontexto|\bmensaje",
    r"\bentrée|\bcontexte|\brequête",
    r"контекст|запрос|ввод|сообщен|промпт"
);
words!(TOKEN, r"\btok(?:en)?s?\b|令牌|トークン|토큰|токен|jeton");
// A request as a whole, or its texts.
words!(
    REQUEST,
    r"\brequests?\b",
    r"\bpayload",
    r"\bbody\b",
    r"\bentity\b",
    r"\bcontent\b",
    r"\btexts?\b",
    r"\bstring",
    r"请求|リクエスト|요청"
);
// What a model can read, or a server takes, at most.
words!(
    WINDOW,
    concat!(
        r"\b(?:context|model|prompt|input|inputs|sequence|seq|message)s?(?: token)?[ -](?:window|",
        r"length|size|limit|len|capacity)"
    ),
    r"\bmax\w*(?: \w+){0,2} (?:context|prompt|input|sequence|model|seq)",
    r"\bn ctx\b",
    r"\bmodel max length|\bmax model len",
    r"上下文(?:长度|窗口|限制)|最大(?:输入|上下文|长度)|コンテキスト(?:長|ウィンドウ)|컨텍스트 (?:길이|윈도우)"
);
words!(
    EXCESS,
    r"\btoo (?:long|large|big|many|much|high)\b|\bto long\b",
    r"exceed",
    r"\bover(?:flow|size|long|ran|run)",
    r"\bover (?:the |its |your )?(?:limit|max|\d|context|token)",
    concat!(
        r"\b(?:longer|larger|greater|bigger|more|higher|beyond|above|smaller|less|fewer|",
        r"shorter)(?: \w+){0,2} than\b"
    ),
    concat!(
        r"\b(?:above|beyond|past|outside)(?: of)? (?:the |its |your )?(?:\w+ )?(?:limit|max|allowed|",
        r"range|window|context)"
    ),
    r"surpass",
    r"\b(?:limit|max\w*|window|length|capacity)(?: is| was| has been)? (?:reached|hit|used up|full)\b",
    r"\b(?:not|nt|cannot|never|no longer) fit\b|\bto fit\b",
    r"not enough (?:room|space|context)|\bno room\b|insufficient (?:context|room)",
    r"\bat most\b|\bno more than\b|\bup to \d|limited to",
    r"<=|≤|\d ?(?:tok\w* )?(?:>=?|≥) ?\w|\) (?:>=?|≥) ",
    concat!(
        r"\b(?:reached|hit|out of|run out|used up|filled|full|violates?)\b[a-z ]{0,24}(?:max|limit|",
        r"context|window|length)|(?:context|window) (?:is |was )?(?:already )?(?:full|exhausted|",
        r"exhaustion)"
    ),
    r"超过|超過|超出|超限|超长|過長|过长|太长|过大|太大|过多|太多|大于|超え|長すぎ|大きすぎ|多すぎ|上限",
    r"초과|너무 (?:길|많|큽|크|긴)|넘",
    r"zu (?:lang|gro|viel)|überschr",
    r"demasiad|excede|supera",
    r"\btrop (?:long|grand|de)|dépass",
    r"превыш|слишком"
);
words!(
    SIZE,
    r"\btoo (?:much|many) (?:text|characters|data|content)\b",
    r"\btoo (?:large|big|long)\b",
    concat!(
        r"\b(?:size|length|bytes?|body|payload|entity|content|texts?|[km]i?b)\b.{0,40}(?:exceed|",
        r"larger|limit|greater|too many|over\b)"
    ),
    r"(?:exceed|larger|greater|over|more).{0,40}\b(?:size|length|bytes|[km]i?b|max\w*)\b",
    r"\btoo many\b.{0,20}\b(?:bytes|characters|chars)\b",
    r"请求.{0,8}(?:过大|太大|过长|超)|リクエスト.{0,12}(?:大きすぎ|長すぎ|超え)"
);
words!(
    BYTES,
    r"\b[kmg]i?b\b|\d[kmg]i?b\b",
    r"\bbytes?\b",
    r"payload|\bentity\b|\bbody\b",
    r"\b(?:message|request|content|maximum|http) (?:\w+ )?size",
    r"(?:request|content) (?:is )?too large"
);
words!(
    LIMIT,
    r"\bmax\w*\b",
    r"\blimit",
    r"\bonly\b",
    r"\bsupport",
    r"\bconfigured|\ballow|\bcapacity",
    r"\bwindow\b",
    r"\bcontext (?:length|size)",
    r"\bn ctx\b",
    r"\btruncate to\b",
    r"最大|上限|限制|最长|支持",
    r"最大|上限",
    r"최대"
);
words!(
    ADVICE,
    concat!(
        r"\b(?:reduc\w*|shorten\w*|decreas\w*|trim\w*|cut|truncat\w*|compact\w*|summari[sz]e|smaller|",
        r"shorter|fewer|less)\b[a-z ]{0,30}\b(?:prompt|input|context|message|messages|conversation|",
        r"history|tokens|length)\b"
    ),
    concat!(
        r"\b(?:prompt|input|context|message|messages|conversation|history|tokens|",
        r"length)\b[a-z ]{0,20}\b(?:reduced|shortened|decreased|trimmed)\b"
    ),
    r"(?:减少|缩短|精简|縮短).{0,16}(?:输入|token|长度|内容|消息|上下文|prompt)|(?:短く|減らし)"
);
// What a model may write.
words!(
    OUTPUT,
    r"\boutcap\b",
    concat!(
        r"\b(?:output|completion|generat\w+|response|reply|reasoning|thinking)s?(?: \w+)? (?:tokens?|",
        r"length|limit|budget)"
    ),
    r"\b(?:tokens|length) (?:in|of|for) (?:the )?(?:completion|output|response|reply)",
    r"\bmax\w* (?:allowed )?(?:number of )?(?:output|completion|new|generat\w+)",
    r"\bbudget tokens",
    r"输出|出力|출력"
);
// Parameters of a request, whose own limits have nothing to do with a window.
words!(
    PARAMETER,
    r"\btools?\b|\bfunctions?\b|\bschema",
    r"\bmetadata\b|\bnames?\b|\bids?\b|\bkeys?\b|\bdescriptions?\b|\btitles?\b|\btags?\b|\blabels?\b",
    r"\bstop\b|\burls?\b|\bheaders?\b|\bcookie|\busername|\bidentifier",
    r"temperature|\btop [pk]\b|logprobs|\bseed\b|penalty",
    concat!(
        r"\benum\b|\barrays?\b|\bitems?\b|\belements?\b|\bblocks?\b|\barguments?\b|\bparameters?\b|",
        r"\bproperties\b|\bnest\w+|\bdepth\b"
    ),
    r"\binstructions\b|cache control|\baccess token|\bapi token|\bauth\w*",
    r"recursion|call stack|\biterations?\b|\bturns\b|\bsteps\b|redirect|\bretries\b",
    r"\bopen files|\bconnections?\b|embedding|\bbatch\b|\bdimension|\bn must\b|\bpassword|\bfiles?\b",
    r"\bdeadline|\bcancel|\btimeout|\btime limit",
    r"函数|工具|参数名|名称|描述|密钥|数组|ファイル名|関数|ツール"
);

// What is no text.
words!(
    MEDIA,
    concat!(
        r"(?:^|[^a-z0-9-])(?:images?|pictures?|photos?|screenshots?|pdfs?|documents?|audios?|videos?|",
        r"media|attachments?|multi-?modal|vision|base64|pixels?|image url|inline data)\b"
    ),
    r"\bpages? limit|\bdata-?ur[il]\b|\bmime ?type|\bmm-per-prompt",
    concat!(
        r"\b(?:input|uploaded|referenced|attached|image|video|audio|max allowed|maximum|supported|",
        r"unsupported) files?\b|\bfile (?:type|format|size|data|url|uri)\b"
    ),
    r"图片|图像|视频|音频|文件|附件|多模态|圖片|圖像",
    r"画像|動画|音声|ファイル",
    r"이미지|동영상|오디오|파일"
);
words!(
    MEDIA_LIMIT,
    r"\bmax(?:imum)?\b.*\d|\d.*\bmax(?:imum)?\b",
    concat!(
        r"\b(?:only|at most|up to|limit\w*|more than|single|one)\b.*\b(?:images?|videos?|audios?|",
        r"pdfs?|documents?|pages|media)\b"
    ),
    r"> ?\d",
    r"total (?:image|media|video) size is"
);
words!(
    BROKEN,
    r"\binvalid\b|\bvalid\b",
    r"\b(?:could|can|did|does|do|is|are|was|were)(?: not|nt)\b|\bcannot\b",
    r"\bunable\b|\bfail",
    r"unsupported|\bsupport\w*\b|\bsupported\b",
    r"corrupt|malformed|damaged|truncated|broken",
    r"recogni[sz]e|\bnot (?:allowed|found|accepted)",
    r"\b(?:should|must|expected|required|requires)\b",
    r"encrypt|password|\bappears? to\b|\bcan only\b",
    r"\bempty\b|mismatch|incorrect|missing|\bzero\b|\bhas no\b|\bdecod|time(?:d)?[ -]?out",
    r"\berror (?:while |when )?(?:processing|decoding|reading|parsing|loading|downloading)",
    r"不支持|无法|失败|无效|不正确|不符合|损坏|错误|不合法|非法|异常|過大",
    r"できません|サポートされていません|対応していません|無効|不正",
    r"지원하지|유효하지|없습니다|잘못된"
);

pub(super) fn of_sentence(text: &str) -> Option<Meaning> {
    let text = &relevant(text);
    let sure = |kind| Some(Meaning { kind, is_sure: true });
    let unsure = |kind| Some(Meaning { kind, is_sure: false });
    // Cerebras refuses a request that is too long in this way.
    words!(NO_BODY, r"\b(?:400|413) (?:status code |bad request )?\(no body\)");
    if NO_BODY.is_match(text) {
        return sure(TooLong);
    }
    if RATE.is_match(text) {
        return sure(Rate);
    }
    if QUOTA.is_match(text) {
        return sure(Quota);
    }
    let has_excess = EXCESS.is_match(text);
    let has_tokens = TOKEN.is_match(text);
    if MEDIA.is_match(text) && !(has_excess && has_tokens) {
        let is_refused = has_excess || MEDIA_LIMIT.is_match(text) || BROKEN.is_match(text);
        return is_refused.then_some(Meaning { kind: Media, is_sure: true });
    }
    if let Some(meaning) = of_output(text, has_excess) {
        return Some(meaning);
    }
    let has_window = WINDOW.is_match(text);
    let is_about_tokens = has_tokens || has_window;
    if PARAMETER.is_match(text) && !is_about_tokens || is_short_limit(text, is_about_tokens) {
        return None;
    }
    let has_input = has_window || INPUT.is_match(text);
    if has_excess && has_input || is_above(text, has_input || has_tokens) || is_window(text, has_window) {
        let is_large = BYTES.is_match(text) && !is_about_tokens && !text.contains("prompt");
        return sure(if is_large { TooLarge } else { TooLong });
    }
    if has_excess && has_tokens {
        return unsure(TooLong);
    }
    if has_excess && REQUEST.is_match(text) && SIZE.is_match(text) {
        return unsure(if BYTES.is_match(text) { TooLarge } else { TooLong });
    }
    if ADVICE.is_match(text) {
        return unsure(TooLong);
    }
    BUSY.is_match(text).then_some(Meaning { kind: Busy, is_sure: false })
}

/// The meaning of an error, which is that of its first sure sentence.
pub(super) fn of_error(sentences: &[String]) -> Option<Meaning> {
    words!(NO_CHAT, r"\bembeddings? (?:model|request|api|endpoint)|\bin your prompt\W+0 (?:for|in) the completion");
    words!(COUNTED, r"\b\d+ (?:items|elements|entries)\b|\barray\b.{0,30}\b(?:long|length|large|many)\b");
    let whole = sentences.join(". ");
    if is_output_above_window(&whole) || NO_CHAT.is_match(&whole) || COUNTED.is_match(&whole) {
        return Some(Meaning { kind: Invalid, is_sure: true });
    }
    let meanings: Vec<Meaning> = sentences.iter().filter_map(|sentence| of_sentence(sentence)).collect();
    if let Some(sure) = meanings.iter().find(|meaning| meaning.is_sure) {
        // Where the account's words come first, a limit in a time says that waiting helps.
        let rate = meanings.iter().find(|meaning| meaning.kind == Rate).filter(|_| sure.kind == Quota);
        return rate.or(Some(sure)).copied();
    }
    let size = meanings.iter().find(|meaning| meaning.kind.is_size());
    let waits = || sentences.iter().any(|sentence| WAIT.is_match(sentence));
    match size {
        // The subject and the excess, or the two numbers, can be in two sentences.
        None if meanings.is_empty() && sentences.len() == 2 => of_sentence(&whole),
        Some(_) if waits() => Some(Meaning { kind: Rate, is_sure: true }),
        Some(size) => Some(*size),
        None => meanings.first().copied(),
    }
}

/// A sentence without phrases whose words mean nothing here.
fn relevant(text: &str) -> String {
    words!(
        PHRASE,
        r"\bbad request(?: error)?\b|\binvalid (?:params?|parameters?|arguments?|request|value|json)\b",
        r"\binput (?:validation|error)\b",
        r"unsupported media type",
        r"\b(?:access|api|auth\w*|bearer|refresh|session|id) tokens?\b",
        r"\bcontext (?:deadline|cancel\w*)",
        r"\berror messages?\b",
        r"\b(?:does|do|did|is|are|was) (?:not|nt) (?:exceed|too|longer|over)\w*",
        r"\b(?:contact|support) (?:team|us)\b|\bcontact support\b",
        r"\bdocument(?:s|ation|ed)? (?:at|for|on)\b|\bdocumentation\b",
        r"\btoo many (?:times|retries|attempts|redirects)",
        r"\bmultiple of\b"
    );
    let text = PHRASE.replace_all(text, " ");
    // The input of a field, and parts of a conversation although a tool's.
    text.replace("input should", "it should")
        .replace("input must", "it must")
        .replace("tool result", "result")
        .replace("tool output", "result")
        .replace("function response", "result")
}

/// The meaning of a sentence about what the model may write; none if the sentence is about what it reads too.
fn of_output(text: &str, has_excess: bool) -> Option<Meaning> {
    words!(
        NEGATIVE,
        concat!(
            r"at least -?\d+.*-\d|(?:got|given|is|be|of) -\d|negative|<= 0\b|no room|",
            r"\b0 (?:tokens )?(?:left|remaining)"
        )
    );
    words!(WINDOW_ALONE, r"\b(?:the |models? |maximum |max )*context(?: window| length| size| limit)?(?: of)?\b");
    if !OUTPUT.is_match(text) {
        return None;
    }
    // The parameter was made from the room that the request leaves.
    if text.contains("outcap") && NEGATIVE.is_match(text) {
        return Some(Meaning { kind: TooLong, is_sure: true });
    }
    let rest = WINDOW_ALONE.replace_all(text, " ");
    let is_of_both = INPUT.is_match(&rest) || rest.contains("input");
    (!is_of_both && (has_excess || LIMIT.is_match(text))).then_some(Meaning { kind: Invalid, is_sure: false })
}

/// True if the window is smaller than the output that was asked for, so that no view fits.
fn is_output_above_window(text: &str) -> bool {
    words!(
        ASKED,
        r"\b(\d+) (?:tokens )?(?:in|for|of|as) (?:the |your )?(?:completion|output|response|outcap)",
        r"\b(\d+) (?:output|completion)\b",
        r"outcap\W{0,3}(?:or outcap )?(?:is )?(?:too large)?\W{1,3}(\d+)\b",
        r"\+ (\d+) >"
    );
    words!(
        HELD,
        r"context (?:length|window|size|limit)(?: is| of|:)?(?: only)? \(?(\d+)",
        r"context limit: \d+ \+ \d+ > (\d+)",
        r"> (\d+) - \d+",
        r"(?:window|context|context length) \((\d+)\)"
    );
    match (number(&ASKED, text), number(&HELD, text)) {
        (Some(asked), Some(held)) => asked >= held,
        _ => false,
    }
}

/// True if a sentence is about an account or a plan.
pub(super) fn is_quota(sentence: &str) -> bool {
    QUOTA.is_match(sentence)
}

/// The number that the first match of a pattern has.
fn number(pattern: &Regex, text: &str) -> Option<u64> {
    let found: Captures<'_> = pattern.captures(text)?;
    found.iter().skip(1).flatten().next()?.as_str().parse().ok()
}

/// All numbers that may count tokens, characters or bytes.
fn sizes(text: &str) -> impl Iterator<Item = u64> {
    words!(NUMBER, r"\b\d{3,18}\b");
    NUMBER.find_iter(text).filter_map(|found| found.as_str().parse().ok())
}

/// The number that a text names as a limit.
fn limit(text: &str) -> Option<u64> {
    words!(
        LIMIT_FIRST,
        concat!(
            r"\b(?:max\w*|limit\w*|only|supports?|configured|allowed|capacity|window|context (?:length|",
            r"size)|n ctx|truncate to|最大|上限|限制|最长)\b\D{0,40}(\d{3,18})\b"
        )
    );
    words!(LIMIT_LAST, r"\b(\d{3,18})\b (?:tokens? )?\(?(?:max\w*|limit|allowed|available)\b");
    number(&LIMIT_LAST, text).or_else(|| number(&LIMIT_FIRST, text))
}

/// True if a text has two sizes of which the larger one is not the limit: what was asked for, and what is allowed.
fn is_above(text: &str, has_subject: bool) -> bool {
    let is_less = |limit| sizes(text).max().is_some_and(|most| most > limit);
    has_subject && LIMIT.is_match(text) && limit(text).is_some_and(is_less)
}

/// True for a sentence that only states the size of the window, as a reason.
fn is_window(text: &str, has_window: bool) -> bool {
    words!(
        STATED,
        concat!(
            r"\b(?:max\w*|limit\w*|only|supports? (?:up to|at most|only))\b.*\d{3}|最大.*\d{3}|",
            r"\d{3}.*\b(?:max\w*|limit)\b"
        )
    );
    words!(RANGE, r"(?:length|range|tokens|size)\b[a-z ]* (?:should|must) be (?:in |within |between )*\W{0,2}\d");
    has_window && STATED.is_match(text) || RANGE.is_match(text) && INPUT.is_match(text)
}

/// True for a limit of characters that is too small for a conversation: that of a parameter.
fn is_short_limit(text: &str, is_about_tokens: bool) -> bool {
    words!(CHARACTERS, r"\bcharacters?\b|\bchars?\b|\bstring\b|max ?length");
    words!(NAMED, r"\binvalid [a-z]");
    words!(CONTENT, r"\b(?:content|text|output|arguments|prompt|messages|input)\b");
    words!(ALLOWED, r"\b(?:at most|max\w*(?: length)?(?: of| is)?|than|up to|limit(?: of| is)?)\W{0,3}(\d+)");
    if is_about_tokens || !CHARACTERS.is_match(text) {
        return false;
    }
    let is_short = number(&ALLOWED, text).is_some_and(|allowed| allowed < 1_000);
    is_short || NAMED.is_match(text) && !CONTENT.is_match(text)
}
