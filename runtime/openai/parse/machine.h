/* machine.h - the part that all forms of tool calls share: bytes that are held until their kind is decided, tags, and
 * events. For the families of forms (family_*.c) and answer_parser.c.
 *
 * A family takes one byte at a time, so that its events cannot depend on how the output was cut. Bytes that may belong
 * to a tag or a call are held; they are dropped when the tag or the call's beginning is complete, and released as
 * content when they turn out to be neither. */
#ifndef YK_OPENAI_PARSE_MACHINE_H
#define YK_OPENAI_PARSE_MACHINE_H

#include "openai/parse/events.h"
#include "openai/parse/json_scan.h"
#include "openai/parse/literal.h"

typedef struct yk_call_machine yk_call_machine;

/* Roles of a tag: a set of bits. */
enum {
  YK_TAG_OPEN = 1,       /* begins a call or a list of calls */
  YK_TAG_CALL = 2,       /* begins a call inside the list */
  YK_TAG_END = 4,        /* ends a call */
  YK_TAG_CLOSE = 8,      /* ends a list of calls */
  YK_TAG_SKIP = 16,      /* may follow arguments */
  YK_TAG_KEY = 32,       /* begins an argument's name */
  YK_TAG_VALUE = 64,     /* begins an argument's value */
  YK_TAG_VALUE_END = 128 /* ends an argument's value */
};

typedef struct yk_tag {
  const char *text; /* the first byte occurs once; NULL: the end of a list */
  unsigned roles;
} yk_tag;

/* One form of calls: a row of a family. */
typedef struct yk_call_form {
  void (*step)(yk_call_machine *m, char c);
  void (*end)(yk_call_machine *m, bool is_cut); /* the text has ended; then no byte is held and no call is open */
  const yk_tag *tags;
  /* The rest depends on the family. */
  bool has_arrays;      /* calls may stand in an array */
  bool needs_arguments; /* an object without arguments is no call */
  bool (*read_header)(yk_call_machine *m, const char *text, size_t n_bytes);
  const yk_literal_rules *literal; /* of arguments; NULL: JSON */
  char name_end;                   /* byte after a function's name */
  const char *key_end;             /* text after an argument's name */
  bool is_lenient;                 /* the end tag of a value may be missing */
  bool marks_strings;    /* string="true" or "false" follows an argument's name; a value keeps newlines at either end */
  bool trims_each;       /* a value loses a newline at either end, else only a pair of newlines */
  unsigned unknown_type; /* of an argument that the schema does not name */
} yk_call_form;

/* The current call, if it is an object with a name and arguments. */
typedef struct yk_call_object {
  yk_json_scan scan;
  bool in_object;
  bool is_emitted; /* its beginning was emitted: name complete, arguments begun */
  int value;       /* role of the current value of the outermost object */
  bool has_arguments, arguments_ended;
  bool has_name;
  yk_strbuf key, name, arguments; /* as JSON; arguments until the beginning is emitted */
} yk_call_object;

struct yk_call_machine {
  const yk_call_form *form;
  const yk_answer_parser_options *options;
  int state;                 /* of the family; 0 at the beginning */
  bool is_special;           /* the current byte belongs to a special token */
  yk_strbuf held;            /* bytes whose kind is not decided yet */
  yk_strbuf held_special;    /* for each of them: belongs to a special token */
  size_t n_before;           /* held bytes before the part of a tag */
  yk_strbuf piece;           /* text of this push that is not emitted yet */
  yk_answer_event_kind kind; /* of piece */
  int32_t n_calls;           /* emitted */
  bool is_dropped;           /* the current call follows the first, and only the first is wanted */
  bool has_open_call;        /* begun, and not ended */
  bool has_broken_call;
  bool in_array;
  yk_call_object object;
  yk_json_scan scan;     /* of the arguments */
  yk_literal literal;    /* of the arguments */
  size_t header;         /* where in held the call's header begins */
  yk_strbuf name, id;    /* of the function and the call; id is empty if the model wrote none */
  yk_strbuf key, value;  /* of an argument */
  yk_strbuf json;        /* translated arguments that are not emitted */
  unsigned types;        /* of the value */
  char string_mark;      /* first byte of the mark after the argument's name, 't' or 'f'; 0: none */
  bool has_key, in_text; /* an argument has been written; the value is written as it arrives */
  /* A message with a channel: its kind, and whether earlier ones had reasoning or content. */
  yk_answer_event_kind message;
  bool has_reasoning, has_content;
  bool begins_newline, has_newline; /* the value begins with a newline; a newline is held back */
  bool has_plain_values;            /* a value looked like JSON, and was none */
};

extern const yk_call_form yk_form_hermes, yk_form_llama3_json, yk_form_granite, yk_form_hunyuan_a13b, yk_form_mistral,
    yk_form_deepseek_v3, yk_form_deepseek_v31, yk_form_kimi_k2, yk_form_gemma4, yk_form_functiongemma,
    yk_form_qwen3_coder, yk_form_minimax_m2, yk_form_seed_oss, yk_form_glm45, yk_form_glm4, yk_form_phi4_mini,
    yk_form_harmony, yk_form_pythonic, yk_form_deepseek_v32, yk_form_nemotron_json, yk_form_olmo3;

/* ---- Emitting ---------------------------------------------------------------------------------------------------- */

/* yk_calls_add_byte - add a byte to the text of this kind; kind is one with a text in pieces. */
void yk_calls_add_byte(yk_call_machine *m, yk_answer_event_kind kind, char c, bool is_special);

/* yk_calls_add - add the current byte. */
void yk_calls_add(yk_call_machine *m, yk_answer_event_kind kind, char c);

/* yk_calls_write - add text that the parser has written to the arguments. */
void yk_calls_write(yk_call_machine *m, const char *text, size_t n_bytes);

/* yk_calls_flush - emit the pending text. */
void yk_calls_flush(yk_call_machine *m);

/* yk_calls_begin - a call of the function with the name m->name and the id m->id begins; drops the held bytes. */
void yk_calls_begin(yk_call_machine *m);

/* yk_calls_end - the open call, if any, has ended. */
void yk_calls_end(yk_call_machine *m, bool is_whole);

/* ---- Held bytes -------------------------------------------------------------------------------------------------- */

/* yk_calls_hold - hold the current byte. False: no memory, which push reports at its end. */
bool yk_calls_hold(yk_call_machine *m, char c);

/* yk_calls_unhold - remove the current byte, the last one in held. */
void yk_calls_unhold(yk_call_machine *m);
void yk_calls_drop(yk_call_machine *m);

/* yk_calls_release - emit the held bytes as this kind. */
void yk_calls_release(yk_call_machine *m, yk_answer_event_kind kind);

/* yk_calls_hold_space - before a tag, white space and the bytes of `more` are held back: holds c too if c is one of
 *   these bytes. Returns false if c is a different byte or part of a tag is held. */
bool yk_calls_hold_space(yk_call_machine *m, char c, const char *more);

/* ---- Tags -------------------------------------------------------------------------------------------------------- */

enum { YK_NO_TAG = 0, YK_PART_OF_TAG = -1 };

/* yk_calls_match - compares the held bytes after the first n_before bytes with the tags that have one of `roles`.
 *   Returns the roles of the tag that it equals, YK_PART_OF_TAG if it is the beginning of a tag, else YK_NO_TAG. */
int yk_calls_match(const yk_call_machine *m, unsigned roles);

/* yk_calls_find - take a byte of text that ends with a tag of one of `roles`. Text is released as kind. Returns the
 *   roles of the tag when it is complete, which is then held; else 0. */
int yk_calls_find(yk_call_machine *m, char c, unsigned roles, yk_answer_event_kind kind);

/* ---- Objects as calls -------------------------------------------------------------------------------------------- */

typedef enum yk_object_result {
  YK_OBJECT_MORE,
  YK_OBJECT_END,     /* with this byte */
  YK_OBJECT_EARLY,   /* the call has ended with whole arguments, and the byte does not belong to the object */
  YK_OBJECT_NO_CALL, /* nothing was emitted, and the held bytes are no call; the byte was not taken */
  YK_OBJECT_BROKEN   /* a call whose beginning was emitted cannot continue with this byte; the byte was not consumed */
} yk_object_result;

/* yk_call_object_begin - the next byte that is not white space must be "{". */
void yk_call_object_begin(yk_call_machine *m);

/* yk_call_object_take - take a byte; it is held until the beginning of the call is emitted. */
yk_object_result yk_call_object_take(yk_call_machine *m, char c);

#endif
