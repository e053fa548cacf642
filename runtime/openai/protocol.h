/* protocol.h - the protocols in which clients request completions: OpenAI's completions, chat completions and
 * responses, Anthropic's messages; and OpenAI's embeddings. All become the same request (request.h); the body of
 * responses and messages is first translated into the body of a chat completion. An answer is written by the protocol's
 * writer (answer_write.h). */
#ifndef YK_OPENAI_PROTOCOL_H
#define YK_OPENAI_PROTOCOL_H

#include "openai/translation.h"

typedef struct yk_answer_writer yk_answer_writer;

/* A field with another name than in a chat completion, or in the engine; code: of an error of its value (YK_E_INVAL),
 * or NULL. */
typedef struct yk_field_name {
  const char *chat, *own, *code;
} yk_field_name;

struct yk_protocol {
  const char *id_prefix; /* of the ids of answers */
  yk_openai_form form;   /* of the request */
  const yk_answer_writer *writer;
  void (*append_error)(const yk_openai_error *error, yk_strbuf *out); /* an error's body, without a newline */
  const char *id_header;      /* in which clients expect the request's id, in addition to X-Request-Id; NULL: none */
  const yk_field_name *names; /* up to one with chat NULL; or NULL */
  /* The rest is for bodies that are translated; NULL otherwise. */
  yk_status (*translate)(yk_translation *translation, yk_json body, yk_err *err);
  bool (*keeps)(const char *key);
  bool shows_excess; /* a prompt longer than the context is refused with Anthropic's message */
};

/* count: a message's prompt alone, whose body needs no max_tokens. */
extern const yk_protocol yk_protocol_completions, yk_protocol_chat, yk_protocol_responses, yk_protocol_messages,
    yk_protocol_messages_count, yk_protocol_embeddings;

/* yk_protocol_parse - read a body [n_bytes] of at most max_bytes. *out is valid and must be freed even after an error.
 *   Errors: those of yk_json_parse and yk_openai_request_parse, with the protocol's names of fields. */
yk_status yk_protocol_parse(const yk_protocol *protocol, const char *body, size_t n_bytes, size_t max_bytes,
                            const yk_openai_defaults *defaults, yk_openai_request *out, yk_err *err);

/* yk_protocol_read - the same of an object of a document, which this function frees or passes to *out, after an error
 *   too. */
yk_status yk_protocol_read(const yk_protocol *protocol, yk_json_doc *document, yk_json body,
                           const yk_openai_defaults *defaults, yk_openai_request *out, yk_err *err);

/* yk_protocol_rename - replace the engine's name of a field at the start of text [n_most bytes] by the protocol's. */
void yk_protocol_rename(const yk_protocol *protocol, char *text, size_t n_most);

/* yk_protocol_error_of - as yk_openai_error_of, with the protocol's names of fields. */
void yk_protocol_error_of(const yk_protocol *protocol, const yk_err *err, const char *param, yk_openai_error *out);

#endif
