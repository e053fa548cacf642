#include "openai/parse/json_scan.h"

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

static yk_scan_result go(yk_json_scan *scan, yk_scan_state state)
{
  scan->state = state;
  return YK_SCAN_MORE;
}

static yk_scan_result open(yk_json_scan *scan, bool is_array)
{
  if (scan->depth == YK_SCAN_MAX_DEPTH) return YK_SCAN_INVALID;
  uint64_t bit = (uint64_t)1 << scan->depth++;
  scan->arrays = is_array ? scan->arrays | bit : scan->arrays & ~bit;
  return go(scan, is_array ? YK_SCAN_FIRST_VALUE : YK_SCAN_FIRST_KEY);
}

static bool in_array(const yk_json_scan *scan)
{
  return scan->arrays >> (scan->depth - 1) & 1;
}

static yk_scan_result close(yk_json_scan *scan, char c)
{
  if (c != (in_array(scan) ? ']' : '}')) return YK_SCAN_INVALID;
  if (--scan->depth == 0) return YK_SCAN_END;
  return go(scan, YK_SCAN_AFTER);
}

static yk_scan_result begin_string(yk_json_scan *scan, char c, bool is_key)
{
  scan->is_key = is_key;
  return c == '"' ? go(scan, YK_SCAN_STRING) : YK_SCAN_INVALID;
}

static yk_scan_result begin_value(yk_json_scan *scan, char c)
{
  switch (c) {
  case '{': return open(scan, false);
  case '[': return open(scan, true);
  case '-': return go(scan, YK_SCAN_MINUS);
  case '0': return go(scan, YK_SCAN_ZERO);
  case 't': scan->literal = "rue"; return go(scan, YK_SCAN_LITERAL);
  case 'f': scan->literal = "alse"; return go(scan, YK_SCAN_LITERAL);
  case 'n': scan->literal = "ull"; return go(scan, YK_SCAN_LITERAL);
  default: return is_digit(c) ? go(scan, YK_SCAN_INTEGER) : begin_string(scan, c, false);
  }
}

static yk_scan_result between(yk_json_scan *scan, char c)
{
  if (yk_json_is_space(c)) return YK_SCAN_MORE;
  switch (scan->state) {
  case YK_SCAN_FIRST_KEY: return c == '}' ? close(scan, c) : begin_string(scan, c, true);
  case YK_SCAN_KEY: return begin_string(scan, c, true);
  case YK_SCAN_COLON: return c == ':' ? go(scan, YK_SCAN_VALUE) : YK_SCAN_INVALID;
  case YK_SCAN_FIRST_VALUE: return c == ']' ? close(scan, c) : begin_value(scan, c);
  case YK_SCAN_VALUE: return begin_value(scan, c);
  default: return c == ',' ? go(scan, in_array(scan) ? YK_SCAN_VALUE : YK_SCAN_KEY) : close(scan, c);
  }
}

static yk_scan_result in_string(yk_json_scan *scan, char c)
{
  if (c == '"') return go(scan, scan->is_key ? YK_SCAN_COLON : YK_SCAN_AFTER);
  if (c == '\\') return go(scan, YK_SCAN_ESCAPE);
  return (unsigned char)c < 0x20 ? YK_SCAN_INVALID : YK_SCAN_MORE;
}

static yk_scan_result in_escape(yk_json_scan *scan, char c)
{
  scan->n_hex = 4;
  if (c == 'u') return go(scan, YK_SCAN_HEX);
  return yk_is_one_of(c, "\"\\/bfnrt") ? go(scan, YK_SCAN_STRING) : YK_SCAN_INVALID;
}

static yk_scan_result in_hex(yk_json_scan *scan, char c)
{
  bool is_hex = is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  if (!is_hex) return YK_SCAN_INVALID;
  return --scan->n_hex == 0 ? go(scan, YK_SCAN_STRING) : YK_SCAN_MORE;
}

static yk_scan_result in_literal(yk_json_scan *scan, char c)
{
  if (c != *scan->literal) return YK_SCAN_INVALID;
  return *++scan->literal == '\0' ? go(scan, YK_SCAN_AFTER) : YK_SCAN_MORE;
}

/* A number ends at the first character that cannot continue it. */
static yk_scan_result in_number(yk_json_scan *scan, char c)
{
  bool digit = is_digit(c), e = c == 'e' || c == 'E', ends = true;
  switch (scan->state) {
  case YK_SCAN_MINUS:
    if (digit) return go(scan, c == '0' ? YK_SCAN_ZERO : YK_SCAN_INTEGER);
    return YK_SCAN_INVALID;
  case YK_SCAN_ZERO:
  case YK_SCAN_INTEGER:
    if (digit && scan->state == YK_SCAN_INTEGER) return YK_SCAN_MORE;
    if (c == '.') return go(scan, YK_SCAN_POINT);
    if (e) return go(scan, YK_SCAN_E);
    break;
  case YK_SCAN_POINT: ends = false; /* fall through */
  case YK_SCAN_FRACTION:
    if (digit) return go(scan, YK_SCAN_FRACTION);
    if (ends && e) return go(scan, YK_SCAN_E);
    break;
  case YK_SCAN_E:
    if (c == '+' || c == '-') return go(scan, YK_SCAN_E_SIGN); /* fall through */
  case YK_SCAN_E_SIGN: ends = false;                           /* fall through */
  default:
    if (digit) return go(scan, YK_SCAN_EXPONENT);
  }
  if (!ends) return YK_SCAN_INVALID;
  scan->state = YK_SCAN_AFTER;
  return between(scan, c);
}

void yk_json_scan_begin(yk_json_scan *scan, char opened)
{
  *scan = (yk_json_scan){0};
  open(scan, opened == '[');
}

yk_scan_result yk_json_scan_byte(yk_json_scan *scan, char c)
{
  switch (scan->state) {
  case YK_SCAN_STRING: return in_string(scan, c);
  case YK_SCAN_ESCAPE: return in_escape(scan, c);
  case YK_SCAN_HEX: return in_hex(scan, c);
  case YK_SCAN_LITERAL: return in_literal(scan, c);
  default: return scan->state <= YK_SCAN_AFTER ? between(scan, c) : in_number(scan, c);
  }
}

bool yk_json_scan_is_value(const char *text, size_t n_bytes)
{
  yk_json_scan scan;
  if (n_bytes == 0 || yk_json_is_space(text[0]) || yk_json_is_space(text[n_bytes - 1])) return false;
  yk_json_scan_begin(&scan, '{');
  scan.state = YK_SCAN_VALUE; /* of an object's only key, so that the object's end ends the value */
  for (size_t i = 0; i < n_bytes; i++) {
    bool may_continue = scan.depth > 1 || scan.state != YK_SCAN_AFTER;
    if (!may_continue || yk_json_scan_byte(&scan, text[i]) != YK_SCAN_MORE) return false;
  }
  return scan.depth == 1 && yk_json_scan_byte(&scan, '}') == YK_SCAN_END;
}
