#include "openai/parse/reasoning.h"

#include <string.h>

#include "openai/parse/json_scan.h"

static const char kimi_section[] = "<|tool_calls_section_begin|>";
static const char apriel_close[] = "[BEGIN FINAL RESPONSE]";

static const yk_reasoning parsers[] = {
    {.name = "qwen3", .tags = {"<think>", "</think>", NULL}},
    {.name = "deepseek_r1", .tags = {"<think>", "</think>", NULL}, .begins_inside = true},
    {.name = "deepseek_v3", .tags = {"<think>", "</think>", NULL}},
    {.name = "glm45", .tags = {"<think>", "</think>", NULL}},
    {.name = "glm47", .tags = {"<think>", "</think>", NULL}},
    {.name = "kimi_k2", .tags = {"<think>", "</think>", kimi_section}},
    {.name = "minimax_m2", .tags = {"<think>", "</think>", NULL}, .begins_inside = true},
    {.name = "minimax_m2_append_think",
     .tags = {"<think>", "</think>", NULL},
     .begins_inside = true,
     .is_content = true},
    {.name = "nemotron_v3", .tags = {"<think>", "</think>", NULL}, .begins_inside = true},
    {.name = "olmo3", .tags = {"<think>", "</think>", NULL}, .begins_inside = true},
    {.name = "mistral", .tags = {"[THINK]", "[/THINK]", NULL}},
    {.name = "gemma4", .tags = {"<|channel>thought", "<channel|>", NULL}},
    {.name = "granite", .tags = {"Here is my thought process:", "Here is my response:", NULL}},
    {.name = "seed_oss", .tags = {"<seed:think>", "</seed:think>", NULL}},
    {.name = "hunyuan_a13b",
     .tags = {"<think>", "</think>", NULL},
     .answer_open = "<answer>",
     .answer_close = "</answer>"},
    {.name = "ernie45",
     .tags = {"<think>", "</think>", NULL},
     .answer_open = "<response>",
     .answer_close = "</response>"},
    {.name = "apriel",
     .tags = {"Here are my reasoning steps:", apriel_close, "<tool_calls>"},
     .answer_open = apriel_close,
     .answer_close = "[END FINAL RESPONSE]"},
    {.name = "openai_gptoss", .has_channels = true},
};

const yk_reasoning *yk_reasoning_find(const char *name)
{
  for (size_t i = 0; i < sizeof parsers / sizeof parsers[0]; i++)
    if (strcmp(parsers[i].name, name) == 0) return &parsers[i];
  return NULL;
}

const yk_reasoning *yk_reasoning_of_template(const char *template_text)
{
  static const struct {
    const char *mark, *name;
  } marks[] = {{"<|channel|>analysis", "openai_gptoss"},
               {"[THINK]", "mistral"},
               {"<|channel>thought", "gemma4"},
               {"<seed:think>", "seed_oss"},
               {apriel_close, "apriel"}};
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
    if (strstr(template_text, marks[i].mark)) return yk_reasoning_find(marks[i].name);
  bool thinks = strstr(template_text, "<think>") || strstr(template_text, "</think>");
  if (!thinks) return NULL;
  if (strstr(template_text, "<answer>")) return yk_reasoning_find("hunyuan_a13b");
  bool has_results = strstr(template_text, "<minimax:tool_call>") != NULL; /* a tool's result is a <response> */
  if (!has_results && strstr(template_text, "<response>")) return yk_reasoning_find("ernie45");
  return yk_reasoning_find(strstr(template_text, kimi_section) ? "kimi_k2" : "qwen3");
}

static bool ends_with(const char *text, size_t n_bytes, const char *tag)
{
  size_t n = strlen(tag);
  return n_bytes >= n && memcmp(text + n_bytes - n, tag, n) == 0;
}

yk_reasoning_beginning yk_reasoning_beginning_of(const yk_reasoning *reasoning, const char *prompt_end, size_t n_bytes)
{
  if (reasoning->has_channels) return YK_REASONING_UNDECIDED;
  while (n_bytes > 0 && yk_json_is_space(prompt_end[n_bytes - 1])) n_bytes--;
  if (ends_with(prompt_end, n_bytes, reasoning->tags.open)) return YK_REASONING_OPENED;
  if (ends_with(prompt_end, n_bytes, reasoning->tags.close)) return YK_REASONING_ENDED;
  return YK_REASONING_UNDECIDED;
}

/* ---- Splitting --------------------------------------------------------------------------------------------------- */

static void drop(yk_reasoning_split *s)
{
  s->held.length = s->held_special.length = s->n_space = 0;
}

/* Passes the first n held bytes to take, and drops the other held bytes. */
static void release(yk_reasoning_split *s, void (*take)(void *user, char c, bool is_special), size_t n)
{
  for (size_t i = 0; i < n; i++) take(s->user, s->held.data[i], s->held_special.data[i] != 0);
  drop(s);
}

/* Holds the byte. False: no memory, which the parser reports. */
static bool hold(yk_reasoning_split *s, char c, bool is_special)
{
  yk_strbuf_append(&s->held, &c, 1);
  yk_strbuf_append(&s->held_special, &is_special, 1);
  return !s->held.failed && !s->held_special.failed;
}

/* Whether held, after its white space, is a beginning of the tag. */
static bool begins(const yk_reasoning_split *s, const char *tag, bool *is_whole)
{
  size_t n = s->held.length - s->n_space;
  if (!tag || n > strlen(tag) || memcmp(s->held.data + s->n_space, tag, n) != 0) return false;
  *is_whole |= n == strlen(tag);
  return true;
}

static void enter(yk_reasoning_split *s, yk_reasoning_state state)
{
  s->state = state;
  s->has_text = false;
  drop(s);
}

/* Passes the held bytes, which end with a tag, as reasoning that is content: the tag is visible even if it is a special
 * token. */
static void pass_tag(yk_reasoning_split *s)
{
  for (size_t i = 0; i < s->held.length; i++) s->reason(s->user, s->held.data[i], false);
  drop(s);
}

static void step_beginning(yk_reasoning_split *s, char c, bool is_special)
{
  bool is_space = s->held.length == s->n_space && yk_json_is_space(c), opens = false, answers = false;
  if (!hold(s, c, is_special)) return;
  if (is_space) {
    s->n_space++;
    return;
  }
  bool is_part = begins(s, s->tags->tags.open, &opens);
  is_part |= begins(s, s->tags->answer_open, &answers);
  if (opens && s->tags->is_content) {
    s->state = YK_REASONING_INSIDE;
    pass_tag(s);
  } else if (opens || answers) {
    enter(s, opens ? YK_REASONING_INSIDE : YK_REASONING_ANSWER);
  } else if (!is_part) {
    s->state = YK_REASONING_BEHIND;
    release(s, s->pass, s->held.length);
  }
}

/* White space is held until other text follows, because it is removed before a close tag. call: a tag that ends the
 * part and is passed on, or NULL. */
static void step_between(yk_reasoning_split *s, char c, bool is_special, const char *close, const char *call)
{
  bool closes = false, ends = false, is_space = yk_json_is_space(c);
  void (*take)(void *user, char c, bool is_special) = s->state == YK_REASONING_INSIDE ? s->reason : s->pass;
  if (is_space && s->held.length == s->n_space) {
    if (s->has_text && hold(s, c, is_special)) s->n_space++;
    return;
  }
  if (!hold(s, c, is_special)) return;
  bool is_part = begins(s, close, &closes);
  is_part |= begins(s, call, &ends);
  if (closes) {
    const char *open = s->tags->answer_open;
    bool opens_answer = s->state == YK_REASONING_INSIDE && open && strcmp(open, close) == 0;
    enter(s, opens_answer ? YK_REASONING_ANSWER : YK_REASONING_CLOSED);
  } else if (ends) {
    size_t n_space = s->n_space;
    s->state = YK_REASONING_BEHIND;
    for (size_t i = n_space; i < s->held.length; i++) s->pass(s->user, s->held.data[i], s->held_special.data[i] != 0);
    drop(s);
  } else if (!is_part) {
    size_t n_before = s->held.length - 1;
    bool is_first = n_before == s->n_space;
    s->has_text = true;
    release(s, take, is_first ? n_before + 1 : n_before);
    if (!is_first) step_between(s, c, is_special, close, call); /* the byte may begin a tag */
  }
}

/* Inside reasoning that is content: all bytes are passed on. */
static void step_content(yk_reasoning_split *s, char c, bool is_special)
{
  bool closes = false;
  if (!hold(s, c, is_special)) return;
  bool is_part = begins(s, s->tags->tags.close, &closes);
  if (closes) {
    s->state = YK_REASONING_BEHIND;
    pass_tag(s);
  } else if (!is_part) {
    size_t n_before = s->held.length - 1;
    release(s, s->reason, n_before > 0 ? n_before : 1);
    if (n_before > 0) step_content(s, c, is_special); /* the byte may begin a tag */
  }
}

/* After the reasoning: white space is removed, then the open tag of the answer if it follows. */
static void step_closed(yk_reasoning_split *s, char c, bool is_special)
{
  bool is_whole = false;
  if (s->held.length == 0 && yk_json_is_space(c)) return;
  if (!hold(s, c, is_special)) return;
  if (!begins(s, s->tags->answer_open, &is_whole)) {
    s->state = YK_REASONING_BEHIND;
    release(s, s->pass, s->held.length);
  } else if (is_whole) {
    enter(s, YK_REASONING_ANSWER);
  }
}

void yk_reasoning_split_byte(yk_reasoning_split *split, char c, bool is_special)
{
  const yk_reasoning *tags = split->tags;
  switch (split->state) {
  case YK_REASONING_BEGINNING: step_beginning(split, c, is_special); break;
  case YK_REASONING_INSIDE:
    if (tags->is_content)
      step_content(split, c, is_special);
    else
      step_between(split, c, is_special, tags->tags.close, tags->tags.call);
    break;
  case YK_REASONING_CLOSED: step_closed(split, c, is_special); break;
  case YK_REASONING_ANSWER: step_between(split, c, is_special, tags->answer_close, NULL); break;
  case YK_REASONING_BEHIND: split->pass(split->user, c, is_special); break;
  }
}

void yk_reasoning_split_end(yk_reasoning_split *split, bool is_cut)
{
  bool has_tag = split->held.length > split->n_space;
  if (is_cut && has_tag)
    drop(split);
  else if (split->state == YK_REASONING_INSIDE)
    release(split, split->reason, has_tag ? split->held.length : 0);
  else
    release(split, split->pass, split->held.length);
}

void yk_reasoning_split_free(yk_reasoning_split *split)
{
  yk_strbuf_free(&split->held);
  yk_strbuf_free(&split->held_special);
}
