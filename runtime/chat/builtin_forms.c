#include "chat/builtin_forms.h"

#include <string.h>

#include "base/utf8.h"

/* State of a prompt that is being rendered. */
typedef struct prompt {
  yk_strbuf *text;
  yk_spans *plain;
  yk_json special_tokens;
  bool answers;       /* the prompt ends with the header of an answer */
  yk_json continued;  /* the last message, if the answer continues it; else absent */
  size_t content_end; /* end of the last message's content so far */
  bool no_memory;
} prompt;

struct yk_builtin_form {
  const char *name;
  bool trims_continued; /* a text that ends with a message's content loses its trailing white space */
  const char *turn_end; /* text after an answer; NULL: none */
  bool ends_with_eos;   /* "eos_token", if there is one, follows an answer */
  yk_status (*render)(prompt *out, yk_json messages, yk_err *err);
};

typedef struct content {
  const char *text;
  size_t n_bytes;
} content;

static const char *role_of(yk_json message)
{
  return yk_json_string(yk_json_get(message, "role"));
}

static bool has_role(yk_json message, const char *role)
{
  return yk_json_equals(yk_json_get(message, "role"), role);
}

static content content_of(yk_json message)
{
  yk_json text = yk_json_get(message, "content");
  return (content){yk_json_string(text) ? yk_json_string(text) : "", yk_json_length(text)};
}

static const char *special_token(yk_json special_tokens, const char *name, const char *fallback)
{
  const char *text = yk_json_string(yk_json_get(special_tokens, name));
  return text ? text : fallback;
}

/* White space as in Python's str.strip. */
static bool is_space(uint32_t c)
{
  return yk_utf8_is_white_space(c) || (c >= 0x1C && c <= 0x1F);
}

static content strip_end(content from)
{
  size_t kept = 0, at = 0;
  while (at < from.n_bytes) {
    uint32_t c;
    at += yk_utf8_decode(from.text + at, from.n_bytes - at, &c);
    if (!is_space(c)) kept = at;
  }
  return (content){from.text, kept};
}

static content strip_begin(content from)
{
  size_t at = 0;
  while (at < from.n_bytes) {
    uint32_t c;
    size_t length = yk_utf8_decode(from.text + at, from.n_bytes - at, &c);
    if (!is_space(c)) break;
    at += length;
  }
  return (content){from.text + at, from.n_bytes - at};
}

static content strip(content from)
{
  return strip_begin(strip_end(from));
}

/* Appends the form's own text. */
static void add(prompt *out, const char *text)
{
  yk_strbuf_append_str(out->text, text);
}

/* Appends the content of a message. */
static void add_content(prompt *out, yk_json message, content body)
{
  size_t begin = out->text->length;
  yk_strbuf_append(out->text, body.text, body.n_bytes);
  if (body.n_bytes > 0 && !has_role(message, "assistant") && !out->text->failed)
    out->no_memory = !yk_spans_append(out->plain, begin, out->text->length) || out->no_memory;
  out->content_end = out->text->length;
}

static yk_status render_chatml(prompt *out, yk_json messages, yk_err *err)
{
  (void)err;
  YK_JSON_EACH(message, messages)
  {
    add(out, "<|im_start|>");
    add(out, role_of(message));
    add(out, "\n");
    add_content(out, message, content_of(message));
    add(out, "<|im_end|>\n");
  }
  if (out->answers) add(out, "<|im_start|>assistant\n");
  return YK_OK;
}

static bool is_continued(const prompt *out, yk_json message)
{
  return out->continued.doc && out->continued.node == message.node;
}

/* A message that is continued keeps its trailing white space: transformers takes the template's own space after it for
 * text that the template keeps. */
static content strip_llama2_end(const prompt *out, yk_json message, content body)
{
  return is_continued(out, message) ? body : strip_end(body);
}

/* A user's text, preceded by the system's. The whole is stripped, so that system text keeps its white space. */
static void add_llama2_user(prompt *out, yk_json message, yk_json system)
{
  content body = strip_llama2_end(out, message, content_of(message));
  add(out, special_token(out->special_tokens, "bos_token", "<s>"));
  add(out, "[INST] ");
  if (system.doc) {
    add(out, "<<SYS>>\n");
    add_content(out, system, content_of(system));
    add(out, body.n_bytes > 0 || is_continued(out, message) ? "\n<</SYS>>\n\n" : "\n<</SYS>>");
    add_content(out, message, body);
  } else {
    add_content(out, message, strip_begin(body));
  }
  add(out, " [/INST]");
}

/* " [/INST]" is the header of an answer, after every user's turn. */
static yk_status render_llama2(prompt *out, yk_json messages, yk_err *err)
{
  yk_json system = yk_json_first(messages);
  if (!has_role(system, "system")) system = YK_JSON_NONE;
  size_t i = 0, n_before = system.doc ? 1 : 0;
  YK_JSON_EACH(message, messages)
  {
    if (i < n_before) {
      i++;
      continue;
    }
    bool is_users_turn = (i - n_before) % 2 == 0;
    if (!has_role(message, is_users_turn ? "user" : "assistant"))
      return yk_err_set(err, YK_E_INVAL, "messages[%zu].role: builtin:llama2 expects \"%s\" here, found \"%s\"", i,
                        is_users_turn ? "user" : "assistant", role_of(message));
    if (is_users_turn) {
      add_llama2_user(out, message, i == 1 ? system : YK_JSON_NONE);
    } else {
      add(out, " ");
      add_content(out, message, strip_begin(strip_llama2_end(out, message, content_of(message))));
      add(out, " ");
      add(out, special_token(out->special_tokens, "eos_token", "</s>"));
    }
    i++;
  }
  return YK_OK;
}

static yk_status render_llama3(prompt *out, yk_json messages, yk_err *err)
{
  (void)err;
  add(out, special_token(out->special_tokens, "bos_token", "<|begin_of_text|>"));
  YK_JSON_EACH(message, messages)
  {
    add(out, "<|start_header_id|>");
    add(out, role_of(message));
    add(out, "<|end_header_id|>\n\n");
    add_content(out, message, strip(content_of(message)));
    add(out, "<|eot_id|>");
  }
  if (out->answers) add(out, "<|start_header_id|>assistant<|end_header_id|>\n\n");
  return YK_OK;
}

/* "<AI>" is the header of an answer, after every user's turn. */
static yk_status render_minicpm(prompt *out, yk_json messages, yk_err *err)
{
  (void)err;
  YK_JSON_EACH(message, messages)
  {
    bool is_user = has_role(message, "user");
    if (is_user) add(out, "<用户>");
    add_content(out, message, strip(content_of(message)));
    if (is_user) add(out, "<AI>");
  }
  return YK_OK;
}

static const yk_builtin_form FORMS[] = {{"chatml", false, "<|im_end|>", false, render_chatml},
                                        {"llama2", false, "</s>", true, render_llama2},
                                        {"llama3", true, "<|eot_id|>", false, render_llama3},
                                        {"minicpm", true, NULL, false, render_minicpm}};

const yk_builtin_form *yk_builtin_form_find(const char *name)
{
  for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++)
    if (strcmp(FORMS[i].name, name) == 0) return &FORMS[i];
  return NULL;
}

const char *yk_builtin_form_turn_end(const yk_builtin_form *form, yk_json special_tokens)
{
  return form->ends_with_eos ? special_token(special_tokens, "eos_token", form->turn_end) : form->turn_end;
}

static yk_status check_messages(const yk_builtin_form *form, yk_json messages, yk_err *err)
{
  size_t i = 0;
  YK_JSON_EACH(message, messages)
  {
    if (!has_role(message, "system") && !has_role(message, "user") && !has_role(message, "assistant"))
      return yk_err_set(err, YK_E_INVAL,
                        "messages[%zu].role: builtin:%s: expected system, user or assistant, found \"%s\"", i,
                        form->name, role_of(message));
    if (yk_json_get(message, "tool_calls").doc)
      return yk_err_set(err, YK_E_INVAL,
                        "messages[%zu].tool_calls: builtin:%s has no form for tools; use another template", i,
                        form->name);
    i++;
  }
  return YK_OK;
}

yk_status yk_builtin_form_render(const yk_builtin_form *form, yk_json messages, yk_json special_tokens,
                                 yk_form_ending ending, yk_strbuf *text, yk_spans *plain, yk_err *err)
{
  bool continues = ending == YK_ENDING_CONTINUED;
  YK_TRY(check_messages(form, messages, err));
  prompt out = {.text = text,
                .plain = plain,
                .answers = ending == YK_ENDING_ANSWER,
                .continued = continues ? yk_json_at(messages, yk_json_size(messages) - 1) : YK_JSON_NONE,
                .special_tokens = special_tokens};
  YK_TRY(form->render(&out, messages, err));
  if (text->failed || out.no_memory) return yk_err_set(err, YK_E_NOMEM, "no memory for a prompt");
  if (continues) {
    content kept = {text->data, out.content_end};
    text->length = form->trims_continued ? strip_end(kept).n_bytes : kept.n_bytes;
    text->data[text->length] = '\0';
  }
  return YK_OK;
}
