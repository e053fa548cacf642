/* literal.h - translates arguments that are not JSON into JSON, byte by byte, while their text arrives: calls and
 * literals of Python, and Gemma's objects with bare keys and marked strings. */
#ifndef YK_OPENAI_PARSE_LITERAL_H
#define YK_OPENAI_PARSE_LITERAL_H

#include "base/strbuf.h"
#include "openai/parse/json_scan.h"

typedef struct yk_literal_rules {
  const char *mark;   /* text on both sides of a string, besides quotes; its first byte occurs once; NULL: none */
  bool has_bare_keys; /* keys and strings may have no quotes; else Python's rules */
} yk_literal_rules;

extern const yk_literal_rules yk_literal_python, yk_literal_gemma4, yk_literal_functiongemma;

typedef enum yk_literal_state {
  YK_LITERAL_FIRST, /* an item or the end */
  YK_LITERAL_NEXT,  /* after a comma */
  YK_LITERAL_KEY,   /* a key without quotes */
  YK_LITERAL_COLON, /* after a key */
  YK_LITERAL_VALUE,
  YK_LITERAL_WORD,   /* a number or a name */
  YK_LITERAL_OPENED, /* after one or two opening quotes */
  YK_LITERAL_STRING,
  YK_LITERAL_ESCAPE,
  YK_LITERAL_HEX,
  YK_LITERAL_MARK, /* in the mark that begins a string */
  YK_LITERAL_MARKED,
  YK_LITERAL_AFTER /* after a value */
} yk_literal_state;

enum { YK_LITERAL_MAX_DEPTH = 64, YK_LITERAL_WORD_BYTES = 256 };

typedef struct yk_literal {
  const yk_literal_rules *rules;
  yk_literal_state state;
  int depth;
  char open[YK_LITERAL_MAX_DEPTH]; /* byte that opened each object or array; 'c': the arguments of a call */
  bool has_comma;                  /* a comma is written before the next item */
  bool is_key;                     /* of the current string */
  char quote;
  bool is_triple;
  int n_quotes;  /* opening quotes; of a triple string: closing quotes */
  size_t n_mark; /* bytes of the mark that have arrived */
  int n_hex;     /* digits of an escape that are missing */
  uint32_t code;
  char word[YK_LITERAL_WORD_BYTES]; /* [n_word] */
  size_t n_word;
  bool has_key; /* a key has been completed */
} yk_literal;

/* yk_literal_begin - begin after the byte that opens an object ("{"), an array ("[") or the arguments of a Python call
 *   ("("), which become an object. Appends JSON to out. */
void yk_literal_begin(yk_literal *literal, const yk_literal_rules *rules, char open, yk_strbuf *out);

/* yk_literal_byte - take the next byte, and append JSON to out. After END and INVALID begin again. */
yk_scan_result yk_literal_byte(yk_literal *literal, char c, yk_strbuf *out);

#endif
