/* json_scan.h - validates a JSON object or array byte by byte, as strictly as a parser, while its text arrives. */
#ifndef YK_OPENAI_PARSE_JSON_SCAN_H
#define YK_OPENAI_PARSE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { YK_SCAN_MAX_DEPTH = 64 };

typedef enum yk_scan_state {
  YK_SCAN_FIRST_KEY, /* behind "{": a key or "}" */
  YK_SCAN_KEY,       /* behind "," in an object */
  YK_SCAN_COLON,
  YK_SCAN_FIRST_VALUE, /* behind "[": a value or "]" */
  YK_SCAN_VALUE,
  YK_SCAN_AFTER, /* after a value: "," or the end of the enclosing object or array */
  YK_SCAN_STRING,
  YK_SCAN_ESCAPE,
  YK_SCAN_HEX,
  YK_SCAN_LITERAL,
  YK_SCAN_MINUS,
  YK_SCAN_ZERO,
  YK_SCAN_INTEGER,
  YK_SCAN_POINT,
  YK_SCAN_FRACTION,
  YK_SCAN_E,
  YK_SCAN_E_SIGN,
  YK_SCAN_EXPONENT
} yk_scan_state;

typedef enum yk_scan_result {
  YK_SCAN_MORE,   /* the byte belongs to the value, which continues */
  YK_SCAN_END,    /* the byte ends the value */
  YK_SCAN_INVALID /* the byte cannot continue the value */
} yk_scan_result;

typedef struct yk_json_scan {
  yk_scan_state state;
  int depth;           /* of objects and arrays: 1 in the outermost object */
  uint64_t arrays;     /* bit i: depth i + 1 is an array */
  bool is_key;         /* of the current string */
  int n_hex;           /* digits of \u that are missing */
  const char *literal; /* missing rest of true, false or null */
} yk_json_scan;

/* yk_json_scan_begin - start after the byte that opens an object ("{") or an array ("["). */
void yk_json_scan_begin(yk_json_scan *scan, char opened);

/* yk_json_scan_byte - take the next byte. After END and INVALID start again. */
yk_scan_result yk_json_scan_byte(yk_json_scan *scan, char c);

/* yk_json_scan_is_value - whether text [n_bytes] is one JSON value, without white space around it. */
bool yk_json_scan_is_value(const char *text, size_t n_bytes);

/* yk_is_one_of - whether c, not NUL, is in the text. */
static inline bool yk_is_one_of(char c, const char *text)
{
  return c != '\0' && strchr(text, c);
}

static inline bool yk_json_is_space(char c)
{
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

#endif
