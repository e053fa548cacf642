#include "chat/chat_renderer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/helper_process.h"
#include "base/json.h"
#include "base/json_write.h"
#include "chat/builtin_forms.h"
#include "chat/conversation.h"
#include "chat/marking.h"
#include "chat/template_source.h"
#include "text/encode_bounded.h"

/* The modules of helper/. */
extern const yk_embedded_file yk_template_helper_files[];
static const char *const MODULES[] = {"marked_text", "template_helper"};
static const yk_helper_program PROGRAM = {.files = yk_template_helper_files,
                                          .modules = MODULES,
                                          .n_modules = sizeof MODULES / sizeof *MODULES,
                                          .argument = ""};

/* Python and jinja2 take a while to start on a busy machine; this limit is independent of a conversation's. */
static const double START_TIME_LIMIT_S = 60;

struct yk_chat_renderer {
  const yk_tokenizer *tokenizer;
  yk_template_source source;
  char *python;
  double time_limit_s;
  int64_t memory_limit_bytes;
  yk_template_needs needs, tool_use_needs; /* of the template, and of the template for tools; fixed after creation */
  int32_t turn_end_id;                     /* of a built-in form; -1: none, or no single token of this vocabulary */
  pthread_mutex_t mutex;                   /* guards the helper: a caller holds it from the request to the answer */
  yk_helper_process helper;
};

void yk_chat_options_init(yk_chat_options *options)
{
  *options = (yk_chat_options){.python = "python3", .time_limit_s = 5, .memory_limit_bytes = 512 << 20};
}

static yk_status check_options(const yk_chat_options *options, yk_err *err)
{
  if (!options->model_dir || !options->tokenizer || !options->python)
    return yk_err_set(err, YK_E_INVAL, "chat: model_dir, tokenizer and python must be given");
  if (!(options->time_limit_s >= 0.01 && options->time_limit_s <= 3600))
    return yk_err_set(err, YK_E_INVAL, "chat: time_limit_s: expected 0.01 to 3600, found %g", options->time_limit_s);
  if (options->memory_limit_bytes < 64 << 20 || options->memory_limit_bytes > INT64_C(1) << 40)
    return yk_err_set(err, YK_E_INVAL, "chat: memory_limit_bytes: expected %d to %lld, found %lld", 64 << 20, 1LL << 40,
                      (long long)options->memory_limit_bytes);
  return YK_OK;
}

/* Reads the error in an answer of the helper; code is for a template's refusal. */
static yk_status read_refusal(yk_json answer, yk_status code, yk_err *err)
{
  const char *refused = yk_json_string(yk_json_get(answer, "refused"));
  const char *unsupported = yk_json_string(yk_json_get(answer, "unsupported"));
  if (refused) return yk_err_set(err, code, "chat template: %s", refused);
  if (unsupported) return yk_err_set(err, YK_E_UNSUPPORTED, "%s", unsupported);
  if (yk_json_get(answer, "memory").doc)
    return yk_err_set(err, YK_E_CAPACITY, "chat template: takes more memory than its limit");
  return yk_err_set(err, YK_E_INTERNAL, "helper's answer: expected a known key, found none");
}

/* Sends a request, and frees it. */
static yk_status call_helper(yk_chat_renderer *renderer, yk_strbuf *request, double time_limit_s, yk_json_doc **answer,
                             yk_err *err)
{
  yk_status status = request->failed
                         ? yk_err_set(err, YK_E_NOMEM, "chat template: no memory for a request")
                         : yk_helper_call(&renderer->helper, request->data, request->length, time_limit_s, answer, err);
  yk_strbuf_free(request);
  return status;
}

/* Whether the template has the role "developer", by vLLM's test. */
static bool names_developer(const char *text)
{
  return strstr(text, "\"developer\"") || strstr(text, "'developer'");
}

/* Whether the template has the refusal of Qwen3.5 and later. */
static bool wants_system_first(const char *text)
{
  return strstr(text, "System message must be at the beginning");
}

static bool has_calls_in_metadata(const char *text)
{
  return strstr(text, "metadata") && strstr(text, "observation") && !strstr(text, "tool_calls");
}

/* Whether the template is Phi-4-mini's, which has no other form of tools. */
static bool has_tools_in_system(const char *text)
{
  return strstr(text, "message['tools']") && !strstr(text, "tool_calls");
}

static yk_template_needs read_needs(yk_json found, const char *text)
{
  yk_json content = yk_json_get(found, "content");
  return (yk_template_needs){.content = yk_json_equals(content, "lists")     ? YK_CONTENT_LISTS
                                        : yk_json_equals(content, "strings") ? YK_CONTENT_STRINGS
                                                                             : YK_CONTENT_EITHER,
                             .content_null = yk_json_is(yk_json_get(found, "content_null"), YK_JSON_TRUE),
                             .argument_strings = yk_json_is(yk_json_get(found, "argument_strings"), YK_JSON_TRUE),
                             .no_developer = !names_developer(text),
                             .calls_in_metadata = has_calls_in_metadata(text),
                             .system_first = wants_system_first(text),
                             .tools_in_system = has_tools_in_system(text)};
}

static void append_text_member(yk_strbuf *out, const char *name, const char *text)
{
  yk_json_append_string(out, name, strlen(name));
  yk_strbuf_append_str(out, ": ");
  yk_json_append_string(out, text, strlen(text));
}

/* Sends the template to the helper. reads_needs: store the template's needs. */
static yk_status load_template(yk_chat_renderer *renderer, bool reads_needs, yk_err *err)
{
  yk_json_doc *answer;
  yk_strbuf request = YK_STRBUF_INIT;
  const yk_template_source *source = &renderer->source;
  yk_strbuf_append_str(&request, "{\"load\": {");
  append_text_member(&request, "default", source->text);
  if (source->tool_use) {
    yk_strbuf_append_str(&request, ", ");
    append_text_member(&request, "tool_use", source->tool_use);
  }
  yk_strbuf_append_str(&request, "}}");
  YK_TRY(call_helper(renderer, &request, START_TIME_LIMIT_S, &answer, err));
  yk_json found = yk_json_get(yk_json_root(answer), "needs");
  yk_status status = found.doc ? YK_OK : read_refusal(yk_json_root(answer), YK_E_FORMAT, err);
  if (status == YK_OK && reads_needs) {
    renderer->needs = read_needs(yk_json_get(found, "default"), source->text);
    if (source->tool_use) renderer->tool_use_needs = read_needs(yk_json_get(found, "tool_use"), source->tool_use);
  }
  yk_json_free(answer);
  return status;
}

/* Starts the helper and sends the template. */
static yk_status start_helper(yk_chat_renderer *renderer, bool reads_needs, yk_err *err)
{
  yk_helper_end(&renderer->helper);
  double longest_s = renderer->time_limit_s > START_TIME_LIMIT_S ? renderer->time_limit_s : START_TIME_LIMIT_S;
  yk_status status =
      yk_helper_start(renderer->python, &PROGRAM, renderer->memory_limit_bytes, longest_s, &renderer->helper, err);
  if (status == YK_OK) status = load_template(renderer, reads_needs, err);
  if (status == YK_OK) return YK_OK;
  yk_helper_end(&renderer->helper);
  if (status == YK_E_UNSUPPORTED)
    yk_err_prefix(err, "chat templates other than " YK_BUILTIN_FORM_NAMES " need Python");
  else
    yk_err_prefix(err, "%.80s", renderer->source.origin);
  return status;
}

static yk_status find_turn_end(yk_chat_renderer *renderer, yk_err *err)
{
  const char *text = yk_builtin_form_turn_end(renderer->source.builtin, yk_json_root(renderer->source.special_tokens));
  int32_t *ids;
  size_t n_ids;
  if (!text) return YK_OK;
  YK_TRY(yk_tokenizer_encode(renderer->tokenizer, text, strlen(text), false, &ids, &n_ids, err));
  if (n_ids == 1) renderer->turn_end_id = ids[0];
  free(ids);
  return YK_OK;
}

static yk_status set_up(yk_chat_renderer *renderer, const yk_chat_options *options, yk_err *err)
{
  renderer->python = strdup(options->python);
  if (!renderer->python) return yk_err_set(err, YK_E_NOMEM, "no memory for a chat renderer");
  YK_TRY(yk_template_source_find(options->model_dir, options->chat_template, &renderer->source, err));
  return renderer->source.builtin ? find_turn_end(renderer, err) : start_helper(renderer, true, err);
}

yk_status yk_chat_renderer_create(const yk_chat_options *options, yk_chat_renderer **out, yk_err *err)
{
  *out = NULL;
  YK_TRY(check_options(options, err));
  yk_chat_renderer *renderer = calloc(1, sizeof *renderer);
  if (!renderer) return yk_err_set(err, YK_E_NOMEM, "no memory for a chat renderer");
  pthread_mutex_init(&renderer->mutex, NULL);
  renderer->tokenizer = options->tokenizer;
  renderer->turn_end_id = -1;
  renderer->needs = (yk_template_needs){.no_developer = true}; /* for a built-in form; those of a template are read */
  renderer->time_limit_s = options->time_limit_s;
  renderer->memory_limit_bytes = options->memory_limit_bytes;
  yk_status status = set_up(renderer, options, err);
  if (status == YK_OK)
    *out = renderer;
  else
    yk_chat_renderer_free(renderer);
  return status;
}

void yk_chat_renderer_free(yk_chat_renderer *renderer)
{
  if (!renderer) return;
  yk_helper_end(&renderer->helper);
  yk_template_source_free(&renderer->source);
  pthread_mutex_destroy(&renderer->mutex);
  free(renderer->python);
  free(renderer);
}

yk_status yk_chat_stop_ids(const yk_chat_renderer *renderer, const int32_t *stop_ids, size_t n_stop_ids, int32_t **ids,
                           size_t *n_ids, yk_err *err)
{
  *n_ids = 0;
  *ids = malloc((n_stop_ids + 1) * sizeof **ids);
  if (!*ids) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu stop ids", n_stop_ids);
  for (size_t i = 0; i < n_stop_ids; i++) (*ids)[(*n_ids)++] = stop_ids[i];
  if (renderer->turn_end_id >= 0) (*ids)[(*n_ids)++] = renderer->turn_end_id;
  return YK_OK;
}

int32_t yk_chat_turn_end_id(const yk_chat_renderer *renderer)
{
  return renderer->turn_end_id;
}

const char *yk_chat_template_origin(const yk_chat_renderer *renderer)
{
  return renderer->source.origin;
}

void yk_chat_prompt_free(yk_chat_prompt *prompt)
{
  free(prompt->text);
  free(prompt->plain.items);
  *prompt = (yk_chat_prompt){0};
}

static bool uses_tool_template(const yk_chat_renderer *renderer, const yk_chat_conversation *conversation)
{
  return renderer->source.tool_use && yk_json_is_given(conversation->tools);
}

/* The template's variables without the special tokens, as yk_conversation_append writes them. The whole text is user
 * text. */
typedef struct user_text {
  yk_strbuf text;
  yk_json_doc *doc; /* the parsed text; the text is not needed afterwards */
} user_text;

static void user_text_free(user_text *what)
{
  yk_strbuf_free(&what->text);
  yk_json_free(what->doc);
}

static yk_status collect(const yk_chat_renderer *renderer, const yk_chat_conversation *conversation, user_text *out,
                         yk_err *err)
{
  bool for_tools = uses_tool_template(renderer, conversation);
  yk_conversation_append(conversation, for_tools ? renderer->tool_use_needs : renderer->needs, &out->text);
  if (out->text.failed) return yk_err_set(err, YK_E_NOMEM, "no memory for a conversation");
  return yk_json_parse("conversation", out->text.data, out->text.length, NULL, &out->doc, err);
}

/* Adds marks to user text, if it needs any; mark is then not empty. A mark is a character that occurs neither in this
 * text nor in the template. */
static yk_status add_marks(const yk_chat_renderer *renderer, user_text *what, char mark[YK_MARK_BYTES], yk_err *err)
{
  const char *texts[] = {what->text.data, renderer->source.text, renderer->source.tool_use};
  yk_json root = yk_json_root(what->doc);
  yk_strbuf marked = YK_STRBUF_INIT;
  size_t n_marks = 0;
  YK_TRY(yk_marking_choose(texts, sizeof texts / sizeof *texts, mark, err));
  yk_strbuf_append_str(&marked, "{\"messages\": ");
  yk_status status =
      yk_marking_append_messages(yk_json_get(root, "messages"), renderer->tokenizer, mark, &marked, &n_marks, err);
  /* A fixed key of this object may get marks too, should a token be called "tools": the helper finds a marked key by
   * its plain text. */
  yk_strbuf_append_str(&marked, ", \"others\": ");
  if (status == YK_OK)
    status = yk_marking_append(yk_json_get(root, "others"), renderer->tokenizer, mark, &marked, &n_marks, err);
  yk_strbuf_append_str(&marked, "}");
  if (status == YK_OK && marked.failed) status = yk_err_set(err, YK_E_NOMEM, "no memory for a conversation");
  if (status == YK_OK && n_marks > 0) {
    yk_strbuf plain = what->text;
    what->text = marked;
    marked = plain;
  }
  if (n_marks == 0) mark[0] = '\0';
  yk_strbuf_free(&marked);
  return status;
}

/* Appends the request to render. */
static void append_request(const yk_chat_renderer *renderer, const yk_chat_conversation *conversation,
                           const user_text *what, const char *mark, yk_strbuf *out)
{
  yk_strbuf_append_fmt(out, "{\"render\": \"%s\", \"add_generation_prompt\": %s, \"continue_final_message\": %s, ",
                       uses_tool_template(renderer, conversation) ? "tool_use" : "default",
                       conversation->add_generation_prompt ? "true" : "false",
                       conversation->continue_final_message ? "true" : "false");
  yk_strbuf_append_fmt(out, "\"mark\": %s%s%s, \"special_tokens\": ", mark[0] ? "\"" : "null", mark,
                       mark[0] ? "\"" : "");
  yk_json_append(out, yk_json_root(renderer->source.special_tokens), 0);
  yk_strbuf_append_str(out, ", \"variables\": ");
  yk_strbuf_append(out, what->text.data, what->text.length);
  yk_strbuf_append_str(out, "}");
}

/* Restarts the helper. The helper ran when the renderer was created, so a failure to restart is not caused by the
 * conversation. */
static yk_status start_again(yk_chat_renderer *renderer, yk_err *err)
{
  yk_status status = start_helper(renderer, false, err);
  if (status == YK_OK || status == YK_E_NOMEM) return status;
  err->code = YK_E_IO;
  return YK_E_IO;
}

/* Seconds that remain for a conversation; 0: none. */
static double time_left_s(const yk_chat_renderer *renderer, int64_t deadline_ns)
{
  double left_s = deadline_ns ? (double)(deadline_ns - yk_clock_now_ns()) * 1e-9 : renderer->time_limit_s;
  return left_s < 0 ? 0 : left_s < renderer->time_limit_s ? left_s : renderer->time_limit_s;
}

/* Called with the mutex held. */
static yk_status render_once(yk_chat_renderer *renderer, const yk_strbuf *request, int64_t deadline_ns,
                             yk_json_doc **answer, yk_err *err)
{
  if (time_left_s(renderer, deadline_ns) == 0) return yk_err_set(err, YK_E_TIMEOUT, "the time limit has passed");
  if (!yk_helper_is_alive(&renderer->helper)) YK_TRY(start_again(renderer, err));
  return yk_helper_call(&renderer->helper, request->data, request->length, time_left_s(renderer, deadline_ns), answer,
                        err);
}

static yk_status render_with_retry(yk_chat_renderer *renderer, const yk_strbuf *request, int64_t deadline_ns,
                                   yk_json_doc **answer, yk_err *err)
{
  if (request->failed) return yk_err_set(err, YK_E_NOMEM, "chat template: no memory for a request");
  yk_err why = YK_ERR_INIT;
  pthread_mutex_lock(&renderer->mutex);
  yk_status status = render_once(renderer, request, deadline_ns, answer, &why);
  if (status == YK_E_IO && !yk_helper_is_alive(&renderer->helper)) { /* the conversation need not be the cause */
    yk_err_clear(&why);
    status = render_once(renderer, request, deadline_ns, answer, &why);
  }
  pthread_mutex_unlock(&renderer->mutex);
  return status == YK_OK ? YK_OK : yk_err_set(err, status, "chat template: rendering a conversation: %s", why.message);
}

/* Reads the prompt from an answer. */
static yk_status read_prompt(yk_json answer, const char *mark, yk_chat_prompt *out, yk_err *err)
{
  yk_json text = yk_json_get(answer, "text");
  yk_strbuf prompt = YK_STRBUF_INIT;
  yk_strbuf_append(&prompt, "", 0);
  yk_status status = YK_OK;
  if (!yk_json_is(text, YK_JSON_STRING))
    status = read_refusal(answer, YK_E_INVAL, err);
  else if (mark[0])
    status = yk_marking_take(yk_json_text(text), yk_json_length(text), mark, &prompt, &out->plain, err);
  else
    yk_strbuf_append(&prompt, yk_json_text(text), yk_json_length(text));
  if (status == YK_OK && prompt.failed) status = yk_err_set(err, YK_E_NOMEM, "no memory for a prompt");
  out->text = prompt.data;
  out->n_bytes = prompt.length;
  return status;
}

static yk_status render_by_helper(yk_chat_renderer *renderer, const yk_chat_conversation *conversation, user_text *what,
                                  yk_chat_prompt *out, yk_err *err)
{
  char mark[YK_MARK_BYTES];
  yk_json_doc *answer;
  yk_strbuf request = YK_STRBUF_INIT;
  YK_TRY(add_marks(renderer, what, mark, err));
  append_request(renderer, conversation, what, mark, &request);
  yk_status status = render_with_retry(renderer, &request, conversation->deadline_ns, &answer, err);
  yk_strbuf_free(&request);
  if (status != YK_OK) return status;
  status = read_prompt(yk_json_root(answer), mark, out, err);
  yk_json_free(answer);
  return status;
}

static yk_status render_builtin(const yk_chat_renderer *renderer, const yk_chat_conversation *conversation,
                                const user_text *what, yk_chat_prompt *out, yk_err *err)
{
  yk_strbuf prompt = YK_STRBUF_INIT;
  yk_json messages = yk_json_get(yk_json_root(what->doc), "messages");
  yk_json special_tokens = yk_json_root(renderer->source.special_tokens);
  if (yk_json_size(conversation->tools) > 0)
    return yk_err_set(err, YK_E_INVAL, "tools: %s has no form for them; use another template", renderer->source.origin);
  yk_strbuf_append(&prompt, "", 0);
  yk_form_ending ending = conversation->add_generation_prompt    ? YK_ENDING_ANSWER
                          : conversation->continue_final_message ? YK_ENDING_CONTINUED
                                                                 : YK_ENDING_NONE;
  yk_status status =
      yk_builtin_form_render(renderer->source.builtin, messages, special_tokens, ending, &prompt, &out->plain, err);
  out->text = prompt.data;
  out->n_bytes = prompt.length;
  return status;
}

yk_status yk_chat_render(yk_chat_renderer *renderer, const yk_chat_conversation *conversation, yk_chat_prompt *out,
                         yk_err *err)
{
  user_text what = {0};
  *out = (yk_chat_prompt){0};
  YK_TRY(yk_conversation_check(conversation, err));
  yk_status status = collect(renderer, conversation, &what, err);
  if (status == YK_OK && renderer->source.builtin)
    status = render_builtin(renderer, conversation, &what, out, err);
  else if (status == YK_OK)
    status = render_by_helper(renderer, conversation, &what, out, err);
  user_text_free(&what);
  if (status != YK_OK) yk_chat_prompt_free(out);
  return status;
}

yk_status yk_chat_encode(yk_chat_renderer *renderer, const yk_chat_conversation *conversation, int32_t **ids,
                         size_t *n_ids, yk_err *err)
{
  yk_chat_prompt prompt;
  *ids = NULL;
  *n_ids = 0;
  YK_TRY(yk_chat_render(renderer, conversation, &prompt, err));
  yk_status status =
      conversation->last_ids
          ? yk_tokenizer_encode_last(renderer->tokenizer, prompt.text, prompt.n_bytes, &prompt.plain,
                                     conversation->add_special_tokens, conversation->last_ids, ids, n_ids, err)
          : yk_tokenizer_encode_bounded(renderer->tokenizer, prompt.text, prompt.n_bytes, &prompt.plain,
                                        conversation->add_special_tokens, conversation->max_ids, ids, n_ids, err);
  yk_chat_prompt_free(&prompt);
  return status;
}
