#include "chat/chat_renderer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"
#include "chat/builtin_forms.h"
#include "chat/conversation.h"
#include "chat/helper_process.h"
#include "chat/marking.h"
#include "chat/template_source.h"

/* Python and jinja2 take a while to start where a machine is busy, whatever a conversation may take. */
static const double START_TIME_LIMIT_S = 60;

struct yk_chat_renderer {
  const yk_tokenizer *tokenizer;
  yk_template_source source;
  char *python;
  double time_limit_s;
  int64_t memory_limit_bytes;
  yk_template_needs needs; /* fixed after creation */
  int32_t turn_end_id;     /* of a built-in form; -1: none, or no single token of this vocabulary */
  pthread_mutex_t mutex;   /* of the helper: whoever asks it something holds it until the answer is there */
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

/* What an answer that is not the wanted one says; code is for a template that refuses. */
static yk_status read_refusal(const json_t *answer, yk_status code, yk_err *err)
{
  const char *refused = json_string_value(json_object_get(answer, "refused"));
  const char *unsupported = json_string_value(json_object_get(answer, "unsupported"));
  if (refused) return yk_err_set(err, code, "chat template: %s", refused);
  if (unsupported) return yk_err_set(err, YK_E_UNSUPPORTED, "%s", unsupported);
  if (json_object_get(answer, "memory"))
    return yk_err_set(err, YK_E_CAPACITY, "chat template: takes more memory than its limit");
  return yk_err_set(err, YK_E_INTERNAL, "helper's answer: nothing that is known");
}

/* A request as text, which the caller frees; NULL without memory. It is taken over and may be NULL, too. */
static char *text_of(json_t *request, yk_err *err)
{
  char *text = request ? yk_tree_text(request, JSON_COMPACT) : NULL;
  json_decref(request);
  if (!text) yk_err_set(err, YK_E_NOMEM, "chat template: no memory for a request");
  return text;
}

/* As vLLM tells which templates know the role. */
static bool names_developer(const char *text)
{
  return text && (strstr(text, "\"developer\"") || strstr(text, "'developer'"));
}

static yk_status load_template(yk_chat_renderer *renderer, yk_template_needs *needs, yk_err *err)
{
  json_t *answer;
  const yk_template_source *source = &renderer->source;
  char *request =
      text_of(json_pack("{s:{s:s, s:s*}}", "load", "default", source->text, "tool_use", source->tool_use), err);
  if (!request) return YK_E_NOMEM;
  yk_status asked = yk_helper_ask(&renderer->helper, request, strlen(request), START_TIME_LIMIT_S, &answer, err);
  free(request);
  YK_TRY(asked);
  const json_t *found = json_object_get(answer, "needs");
  yk_status status = found ? YK_OK : read_refusal(answer, YK_E_FORMAT, err);
  needs->content_lists = json_is_true(json_object_get(found, "content_lists"));
  needs->argument_objects = json_is_true(json_object_get(found, "argument_objects"));
  needs->no_developer = !names_developer(source->text) && !names_developer(source->tool_use);
  json_decref(answer);
  return status;
}

/* Start the helper and give it the template, of which it tells the needs. */
static yk_status start_helper(yk_chat_renderer *renderer, yk_template_needs *needs, yk_err *err)
{
  yk_helper_end(&renderer->helper);
  double longest_s = renderer->time_limit_s > START_TIME_LIMIT_S ? renderer->time_limit_s : START_TIME_LIMIT_S;
  yk_status status = yk_helper_start(renderer->python, renderer->memory_limit_bytes, longest_s, &renderer->helper, err);
  if (status == YK_OK) status = load_template(renderer, needs, err);
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
  const char *text = yk_builtin_form_turn_end(renderer->source.builtin, renderer->source.special_tokens);
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
  return renderer->source.builtin ? find_turn_end(renderer, err) : start_helper(renderer, &renderer->needs, err);
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
  renderer->needs.no_developer = true; /* a built-in form; the others are read */
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

/* The template's variables but for the special tokens, with messages in the form that it takes: all that users say. */
typedef struct said {
  json_t *messages, *others; /* others: tools, documents and arguments under their own names, each maybe null */
} said;

static void said_free(said *what)
{
  json_decref(what->messages);
  json_decref(what->others);
}

static json_t *or_null(const json_t *value)
{
  return value ? (json_t *)value : json_null();
}

static yk_status collect(const yk_chat_renderer *renderer, const yk_chat_conversation *conversation, said *out,
                         yk_err *err)
{
  YK_TRY(yk_conversation_convert(conversation->messages, renderer->needs, &out->messages, err));
  out->others = json_pack("{s:O, s:O, s:O}", "tools", or_null(conversation->tools), "documents",
                          or_null(conversation->documents), "arguments", or_null(conversation->arguments));
  return out->others ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for a conversation");
}

/* A character that neither what is said nor the template holds. */
static yk_status choose_mark(const yk_chat_renderer *renderer, const said *plain, char mark[YK_MARK_BYTES], yk_err *err)
{
  char *messages = yk_tree_text(plain->messages, JSON_COMPACT), *others = yk_tree_text(plain->others, JSON_COMPACT);
  const char *texts[] = {messages, others, renderer->source.text, renderer->source.tool_use};
  yk_status status = messages && others ? yk_marking_choose(texts, sizeof texts / sizeof *texts, mark, err)
                                        : yk_err_set(err, YK_E_NOMEM, "no memory for a conversation");
  free(messages);
  free(others);
  return status;
}

/* Put marks into what is said, where it needs any; mark is then not empty. */
static yk_status add_marks(const yk_chat_renderer *renderer, said *what, char mark[YK_MARK_BYTES], yk_err *err)
{
  said marked = {0};
  size_t n_marks = 0;
  YK_TRY(choose_mark(renderer, what, mark, err));
  yk_status status =
      yk_marking_add_to_messages(what->messages, renderer->tokenizer, mark, &marked.messages, &n_marks, err);
  /* Keys of the outermost object are ours; marks in them, should a token be called "tools", are looked through. */
  if (status == YK_OK) status = yk_marking_add(what->others, renderer->tokenizer, mark, &marked.others, &n_marks, err);
  if (status == YK_OK && n_marks > 0) {
    said plain = *what;
    *what = marked;
    marked = plain;
  }
  if (n_marks == 0) mark[0] = '\0';
  said_free(&marked);
  return status;
}

/* The request to render; takes nothing over. NULL without memory. */
static json_t *make_request(const yk_chat_renderer *renderer, const yk_chat_conversation *conversation,
                            const said *what, const char *mark)
{
  const json_t *tools = conversation->tools;
  bool uses_tools = tools && !json_is_null(tools) && renderer->source.tool_use;
  return json_pack("{s:s, s:O, s:O, s:O, s:b, s:b, s:s?}", "render", uses_tools ? "tool_use" : "default",
                   "special_tokens", renderer->source.special_tokens, "messages", what->messages, "others",
                   what->others, "add_generation_prompt", (int)conversation->add_generation_prompt,
                   "continue_final_message", (int)conversation->continue_final_message, "mark", mark[0] ? mark : NULL);
}

/* It was there when the renderer was created: whatever is missing now, the conversation is not at fault. */
static yk_status start_again(yk_chat_renderer *renderer, yk_err *err)
{
  yk_template_needs same; /* as when the renderer was created */
  yk_status status = start_helper(renderer, &same, err);
  if (status == YK_OK || status == YK_E_NOMEM) return status;
  if (err) err->code = YK_E_IO;
  return YK_E_IO;
}

static yk_status ask_to_render(yk_chat_renderer *renderer, json_t *request, json_t **answer, yk_err *err)
{
  char *text = text_of(request, err);
  if (!text) return YK_E_NOMEM;
  pthread_mutex_lock(&renderer->mutex);
  yk_status status = YK_E_IO;
  for (int n_tries = 0; status == YK_E_IO && n_tries < 2; n_tries++) {
    if (err) yk_err_clear(err);
    status = yk_helper_is_alive(&renderer->helper) ? YK_OK : start_again(renderer, err);
    if (status != YK_OK) break;
    status = yk_helper_ask(&renderer->helper, text, strlen(text), renderer->time_limit_s, answer, err);
  }
  if (status != YK_OK) yk_err_prefix(err, "chat template: rendering a conversation");
  pthread_mutex_unlock(&renderer->mutex);
  free(text);
  return status;
}

static yk_status render_by_helper(yk_chat_renderer *renderer, const yk_chat_conversation *conversation, said *what,
                                  yk_chat_prompt *out, yk_err *err)
{
  char mark[YK_MARK_BYTES];
  json_t *answer;
  YK_TRY(add_marks(renderer, what, mark, err));
  YK_TRY(ask_to_render(renderer, make_request(renderer, conversation, what, mark), &answer, err));
  const json_t *text = json_object_get(answer, "text");
  yk_strbuf prompt = YK_STRBUF_INIT;
  yk_strbuf_append(&prompt, "", 0);
  yk_status status = YK_OK;
  if (!text)
    status = read_refusal(answer, YK_E_INVAL, err);
  else if (mark[0])
    status = yk_marking_take(json_string_value(text), json_string_length(text), mark, &prompt, &out->plain, err);
  else
    yk_strbuf_append(&prompt, json_string_value(text), json_string_length(text));
  if (status == YK_OK && prompt.failed) status = yk_err_set(err, YK_E_NOMEM, "no memory for a prompt");
  json_decref(answer);
  out->text = prompt.data;
  out->n_bytes = prompt.length;
  return status;
}

static yk_status render_builtin(const yk_chat_renderer *renderer, const yk_chat_conversation *conversation,
                                const said *what, yk_chat_prompt *out, yk_err *err)
{
  yk_strbuf prompt = YK_STRBUF_INIT;
  if (json_array_size(conversation->tools) > 0)
    return yk_err_set(err, YK_E_INVAL, "tools: %s knows none", renderer->source.origin);
  yk_strbuf_append(&prompt, "", 0);
  yk_form_ending ending = conversation->add_generation_prompt    ? YK_ENDING_ASKS
                          : conversation->continue_final_message ? YK_ENDING_CONTINUES
                                                                 : YK_ENDING_NONE;
  yk_status status = yk_builtin_form_render(renderer->source.builtin, what->messages, renderer->source.special_tokens,
                                            ending, &prompt, &out->plain, err);
  out->text = prompt.data;
  out->n_bytes = prompt.length;
  return status;
}

yk_status yk_chat_render(yk_chat_renderer *renderer, const yk_chat_conversation *conversation, yk_chat_prompt *out,
                         yk_err *err)
{
  said what = {0};
  *out = (yk_chat_prompt){0};
  YK_TRY(yk_conversation_check(conversation, err));
  yk_status status = collect(renderer, conversation, &what, err);
  if (status == YK_OK && renderer->source.builtin)
    status = render_builtin(renderer, conversation, &what, out, err);
  else if (status == YK_OK)
    status = render_by_helper(renderer, conversation, &what, out, err);
  said_free(&what);
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
  yk_status status = yk_tokenizer_encode_partly_plain(renderer->tokenizer, prompt.text, prompt.n_bytes, &prompt.plain,
                                                      conversation->add_special_tokens, ids, n_ids, err);
  yk_chat_prompt_free(&prompt);
  return status;
}
