/* json_scan.h - a JSON object followed byte by byte, as strict as a parser, for text that is still coming. */
#ifndef YK_OPENAI_JSON_SCAN_H
#define YK_OPENAI_JSON_SCAN_H

#include <stdbool.h>
#include <stdint.h>

enum { YK_SCAN_MAX_DEPTH = 64 };

typedef enum yk_scan_state {
  YK_SCAN_FIRST_KEY, /* behind "{": a key or "}" */
  YK_SCAN_KEY,       /* behind "," in an object */
  YK_SCAN_COLON,
  YK_SCAN_FIRST_VALUE, /* behind "[": a value or "]" */
  YK_SCAN_VALUE,
  YK_SCAN_AFTER, /* behind a value: "," or the end of what holds it */
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
  YK_SCAN_MORE,   /* the byte belongs to the object, which goes on */
  YK_SCAN_END,    /* the byte ends the object */
  YK_SCAN_INVALID /* no object goes on with this byte */
} yk_scan_result;

typedef struct yk_json_scan {
  yk_scan_state state;
  int depth;           /* of objects and arrays: 1 in the outermost object */
  uint64_t arrays;     /* bit i: depth i + 1 is an array */
  bool is_key;         /* of the string at hand */
  int n_hex;           /* digits of \u still to come */
  const char *literal; /* what is still to come of true, false or null */
} yk_json_scan;

/* yk_json_scan_begin - the byte "{" has been seen. */
void yk_json_scan_begin(yk_json_scan *scan);

/* yk_json_scan_byte - the next byte. After END and INVALID begin again. */
yk_scan_result yk_json_scan_byte(yk_json_scan *scan, char c);

static inline bool yk_json_is_space(char c)
{
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

#endif
