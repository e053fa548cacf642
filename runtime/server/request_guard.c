#include "server/request_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CHUNK_LINE_BYTES = 256, TRAILER_BYTES = 8 << 10, SIZE_DIGITS = 15, LENGTH_DIGITS = 18 };

static const char line_end[] = "\r\n";

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

#define REFUSE(guard, http_status, ...)                                                                                \
  do {                                                                                                                 \
    (guard)->state = YK_GUARD_REFUSED;                                                                                 \
    yk_reply_refuse(&(guard)->refusal, http_status, NULL, __VA_ARGS__);                                                \
  } while (0)

/* Checks a byte of a line that ends with a carriage return and a line feed; before: the byte before, or 0. Refuses
 * bytes that no line may contain. */
static bool check_byte(yk_request_guard *guard, unsigned char before, unsigned char byte)
{
  if (before == '\r' && byte != '\n')
    REFUSE(guard, 400, "a carriage return without a line feed");
  else if (byte == '\n' && before != '\r')
    REFUSE(guard, 400, "a line feed without a carriage return");
  else if (byte == '\0')
    REFUSE(guard, 400, "a NUL character in a line");
  return guard->state != YK_GUARD_REFUSED;
}

static bool is_token(const char *text, size_t n_bytes)
{
  for (size_t i = 0; i < n_bytes; i++) {
    unsigned char c = (unsigned char)text[i];
    bool is_alphanumeric = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
    if (!is_alphanumeric && (c == 0 || !strchr("!#$%&'*+-.^_`|~", c))) return false;
  }
  return n_bytes > 0;
}

/* ---- The request line -------------------------------------------------------------------------------------------- */

typedef struct request_line {
  const char *method, *authority, *target, *version; /* authority: NULL if the target has none */
  size_t method_bytes, authority_bytes, target_bytes;
} request_line;

static bool check_target(yk_request_guard *guard, const request_line *line)
{
  size_t n_arguments = 0;
  if (line->target_bytes > YK_GUARD_TARGET_BYTES) {
    REFUSE(guard, 414, "target: expected at most %d bytes, found %zu", YK_GUARD_TARGET_BYTES, line->target_bytes);
    return false;
  }
  for (size_t i = 0; i < line->target_bytes; i++) {
    n_arguments += line->target[i] == '&';
    if (line->target[i] == '%' && strncmp(line->target + i, "%00", 3) == 0) {
      REFUSE(guard, 400, "target: a NUL character (%%00)");
      return false;
    }
  }
  if (n_arguments < YK_GUARD_ARGUMENTS) return true;
  REFUSE(guard, 414, "target: expected at most %d arguments, found %zu", YK_GUARD_ARGUMENTS, n_arguments + 1);
  return false;
}

/* Splits "http://host/path?query". False: the target has no valid form. */
static bool split_target(request_line *line)
{
  const char *target = line->target;
  size_t n_scheme = strncasecmp(target, "http://", 7) == 0 ? 7 : strncasecmp(target, "https://", 8) == 0 ? 8 : 0;
  if (target[0] == '/') return true;
  if (n_scheme == 0) return line->target_bytes == 1 && target[0] == '*' && strncmp(line->method, "OPTIONS ", 8) == 0;
  line->authority = target + n_scheme;
  line->authority_bytes = strcspn(line->authority, "/? ");
  line->target = line->authority + line->authority_bytes;
  line->target_bytes -= n_scheme + line->authority_bytes;
  return line->authority_bytes > 0 && !memchr(line->authority, '@', line->authority_bytes);
}

/* text: the line, NUL-terminated. */
static bool parse_line(yk_request_guard *guard, const char *text, request_line *out)
{
  const char *space = strchr(text, ' '), *last = strrchr(text, ' ');
  *out = (request_line){.method = text};
  if (space) snprintf(guard->method, sizeof guard->method, "%.*s", (int)(space - text), text);
  if (!space || last == space || strchr(space + 1, ' ') != last || strchr(text, '\t')) {
    REFUSE(guard, 400, "expected a method, a target and a version with a space between, found %.100s", text);
    return false;
  }
  out->method_bytes = (size_t)(space - text);
  out->target = space + 1;
  out->target_bytes = (size_t)(last - space) - 1;
  out->version = last + 1;
  guard->is_http_1_0 = strcmp(out->version, "HTTP/1.0") == 0;
  if (!is_token(text, out->method_bytes))
    REFUSE(guard, 400, "expected a method, found %.100s", text);
  else if (strncmp(out->version, "HTTP/", 5) != 0)
    REFUSE(guard, 400, "expected HTTP/1.1, found %.20s", out->version);
  else if (!guard->is_http_1_0 && strcmp(out->version, "HTTP/1.1") != 0)
    REFUSE(guard, 505, "expected HTTP/1.1, found %.20s", out->version);
  else if (out->target_bytes == 0 || !split_target(out))
    REFUSE(guard, 400, "expected a target that begins with \"/\", found %.100s", space + 1);
  else
    snprintf(guard->path, sizeof guard->path, "%.*s", (int)strcspn(out->target, "? "), out->target);
  return guard->state != YK_GUARD_REFUSED && check_target(guard, out);
}

/* ---- Headers ----------------------------------------------------------------------------------------------------- */

/* Headers that may occur once. The first N_EXACT names: a longer name that begins with one is refused too, since other
 * servers may take it for that header. */
enum { HOST, LENGTH, CODING, AUTHORIZATION, N_EXACT, TYPE = N_EXACT, ENCODING, N_SINGLE };
static const char *const single_names[] = {"Host",          "Content-Length", "Transfer-Encoding",
                                           "Authorization", "Content-Type",   "Content-Encoding"};

typedef struct seen_headers {
  int n[N_SINGLE], n_all;
  const char *value[N_SINGLE]; /* of the last occurrence, NUL-terminated */
} seen_headers;

/* Parses a header's line, NUL-terminated; *value: without surrounding white space, which is cut off. */
static bool parse_header(yk_request_guard *guard, char *line, char **value, seen_headers *seen)
{
  size_t n_name = strcspn(line, ":");
  if (line[0] == ' ' || line[0] == '\t')
    REFUSE(guard, 400, "a header that continues in a second line: %.60s", line);
  else if (!line[n_name])
    REFUSE(guard, 400, "expected a header, found %.60s", line);
  else if (!is_token(line, n_name))
    REFUSE(guard, 400, "header \"%.*s\": expected a name without spaces", n_name < 60 ? (int)n_name : 60, line);
  else if (++seen->n_all > YK_GUARD_HEADERS)
    REFUSE(guard, 431, "expected at most %d headers", YK_GUARD_HEADERS);
  if (guard->state == YK_GUARD_REFUSED) return false;
  *value = line + n_name + 1;
  *value += strspn(*value, " \t");
  for (size_t n = strlen(*value); n > 0 && strchr(" \t", (*value)[n - 1]); n--) (*value)[n - 1] = '\0';
  for (int i = 0; i < N_SINGLE; i++) {
    size_t n_single = strlen(single_names[i]);
    if (n_name < n_single || strncasecmp(line, single_names[i], n_single) != 0) continue;
    if (n_name == n_single) {
      seen->n[i]++;
      seen->value[i] = *value;
    } else if (i < N_EXACT) {
      REFUSE(guard, 400, "header \"%.*s\": expected %s or another name", n_name < 60 ? (int)n_name : 60, line,
             single_names[i]);
    }
  }
  return guard->state != YK_GUARD_REFUSED;
}

static bool check_headers(yk_request_guard *guard, const seen_headers *seen)
{
  const char *coding = seen->value[CODING], *length = seen->value[LENGTH];
  if (seen->n[HOST] > 1 || (seen->n[HOST] == 0 && !guard->is_http_1_0))
    REFUSE(guard, 400, "Host: expected one such header, found %d", seen->n[HOST]);
  else if (coding && strcasecmp(coding, "chunked") != 0)
    REFUSE(guard, 501, "Transfer-Encoding: expected chunked, found %.60s", coding);
  else if (coding && guard->is_http_1_0)
    REFUSE(guard, 400, "Transfer-Encoding: expected none in HTTP/1.0, found %.60s", coding);
  else if (coding && length)
    REFUSE(guard, 400, "expected one of Content-Length and Transfer-Encoding, found both");
  else if (length && (!length[0] || length[strspn(length, "0123456789")] || strlen(length) > LENGTH_DIGITS))
    REFUSE(guard, 400, "Content-Length: expected a number of bytes, found %.60s", length);
  for (int i = 0; i < N_SINGLE && guard->state != YK_GUARD_REFUSED; i++)
    if (seen->n[i] > 1) REFUSE(guard, 400, "%s: expected one such header, found %d", single_names[i], seen->n[i]);
  return guard->state != YK_GUARD_REFUSED;
}

/* ---- The head ---------------------------------------------------------------------------------------------------- */

/* Cuts off the next line; its end becomes a NUL. */
static char *next_line(char **at)
{
  char *line = *at, *end = strstr(line, line_end);
  *end = '\0';
  *at = end + strlen(line_end);
  return line;
}

static void append_line(const request_line *line, yk_strbuf *out)
{
  bool has_path = line->target_bytes > 0 && line->target[0] != '?';
  yk_strbuf_append(out, line->method, line->method_bytes);
  yk_strbuf_append_str(out, has_path ? " " : " /");
  yk_strbuf_append(out, line->target, line->target_bytes);
  yk_strbuf_append_fmt(out, " %s\r\n", line->version);
}

/* Cookies are dropped: the server reads none, and libmicrohttpd, which would parse them, gives no answer if its memory
 * does not suffice. */
static bool is_cookie(const char *header)
{
  return strncasecmp(header, "Cookie:", strlen("Cookie:")) == 0;
}

/* Called when the whole head has arrived. */
static void pass_head(yk_request_guard *guard, yk_strbuf *out)
{
  char *at = guard->text.data, *header, *value;
  request_line line;
  seen_headers seen = {0};
  yk_strbuf lines = YK_STRBUF_INIT;
  if (!parse_line(guard, next_line(&at), &line)) return;
  while ((header = next_line(&at))[0] && parse_header(guard, header, &value, &seen)) {
    bool is_host = line.authority && seen.value[HOST] == value;
    if (is_cookie(header)) continue;
    yk_strbuf_append(&lines, header, strcspn(header, ":"));
    if (is_host)
      yk_strbuf_append_fmt(&lines, ": %.*s\r\n", (int)line.authority_bytes, line.authority);
    else
      yk_strbuf_append_fmt(&lines, ": %s\r\n", value);
  }
  if (guard->state != YK_GUARD_REFUSED && check_headers(guard, &seen)) {
    append_line(&line, out);
    yk_strbuf_append(out, lines.data, lines.length);
    yk_strbuf_append_str(out, line_end);
    out->failed = out->failed || lines.failed;
    guard->left_bytes = seen.value[LENGTH] ? strtoull(seen.value[LENGTH], NULL, 10) : 0;
    guard->state = seen.value[CODING] ? YK_GUARD_CHUNK_SIZE : guard->left_bytes ? YK_GUARD_BODY : YK_GUARD_DONE;
  }
  yk_strbuf_free(&lines);
  yk_strbuf_clear(&guard->text);
}

static bool ends_with(const yk_strbuf *text, const char *end)
{
  size_t n = strlen(end);
  return text->length >= n && memcmp(text->data + text->length - n, end, n) == 0;
}

/* Adds a byte of a line. False: refused. */
static bool add_byte(yk_request_guard *guard, char byte)
{
  yk_strbuf *text = &guard->text;
  unsigned char before = text->length ? (unsigned char)text->data[text->length - 1] : 0;
  if (!check_byte(guard, before, (unsigned char)byte)) return false;
  yk_strbuf_append(text, &byte, 1);
  if (text->failed) REFUSE(guard, 500, "out of memory");
  return !text->failed;
}

static void take_head_byte(yk_request_guard *guard, char byte, yk_strbuf *out)
{
  yk_strbuf *text = &guard->text;
  bool is_control = (unsigned char)byte < ' ' || byte == 0x7F;
  if (!guard->has_line && is_control && byte != '\r' && byte != '\n') {
    REFUSE(guard, 400, "expected a method, a target and a version, found the control character 0x%02x", byte);
    return;
  }
  if (!add_byte(guard, byte)) return;
  guard->has_line = guard->has_line || (byte == '\n' && text->length > 2);
  if (text->length == 2 && ends_with(text, line_end)) { /* empty lines before a request are ignored */
    yk_strbuf_clear(text);
  } else if (ends_with(text, "\r\n\r\n")) {
    pass_head(guard, out);
  } else if (text->length > YK_GUARD_HEAD_BYTES) {
    REFUSE(guard, 431, "expected request line and headers of at most %d bytes", YK_GUARD_HEAD_BYTES);
  } else if (text->length > YK_GUARD_TARGET_BYTES + 64 && !guard->has_line) {
    REFUSE(guard, 414, "target: expected at most %d bytes", YK_GUARD_TARGET_BYTES);
  }
}

/* ---- Chunks ------------------------------------------------------------------------------------------------------ */

/* A chunk's size, and extensions, which are dropped. */
static void pass_chunk_size(yk_request_guard *guard, yk_strbuf *out)
{
  const char *line = guard->text.data;
  size_t n_digits = strspn(line, "0123456789abcdefABCDEF");
  const char *rest = line + n_digits + strspn(line + n_digits, " \t");
  bool is_size = n_digits > 0 && n_digits <= SIZE_DIGITS && (rest[0] == ';' || strcmp(line + n_digits, line_end) == 0);
  if (!is_size) {
    REFUSE(guard, 400, "expected the size of a chunk, found %.40s", line);
    return;
  }
  guard->left_bytes = strtoull(line, NULL, 16);
  guard->state = guard->left_bytes ? YK_GUARD_CHUNK : YK_GUARD_TRAILER;
  guard->n_trailer_bytes = 0;
  if (guard->left_bytes) yk_strbuf_append_fmt(out, "%llx\r\n", (unsigned long long)guard->left_bytes);
  yk_strbuf_clear(&guard->text);
}

/* A line after the last chunk: a header, which is dropped, or the end. */
static void pass_trailer(yk_request_guard *guard, yk_strbuf *out)
{
  yk_strbuf *text = &guard->text;
  bool is_end = text->length == strlen(line_end);
  size_t n_name = strcspn(text->data, ":");
  guard->n_trailer_bytes += text->length;
  if (is_end) {
    yk_strbuf_append_str(out, "0\r\n\r\n");
    guard->state = YK_GUARD_DONE;
  } else if (text->data[n_name] != ':' || !is_token(text->data, n_name)) {
    REFUSE(guard, 400, "expected a trailer, found %.40s", text->data);
  } else if (guard->n_trailer_bytes > TRAILER_BYTES) {
    REFUSE(guard, 431, "expected trailers of at most %d bytes", TRAILER_BYTES);
  }
  if (guard->state != YK_GUARD_REFUSED) yk_strbuf_clear(text);
}

static void take_line_byte(yk_request_guard *guard, char byte, yk_strbuf *out)
{
  size_t limit = guard->state == YK_GUARD_TRAILER ? TRAILER_BYTES : CHUNK_LINE_BYTES;
  if (!add_byte(guard, byte)) return;
  if (guard->text.length > limit)
    REFUSE(guard, 400, "expected a line of at most %zu bytes among chunks", limit);
  else if (byte == '\n' && guard->state == YK_GUARD_TRAILER)
    pass_trailer(guard, out);
  else if (byte == '\n')
    pass_chunk_size(guard, out);
}

static void take_chunk_end_byte(yk_request_guard *guard, char byte, yk_strbuf *out)
{
  if (byte != line_end[guard->text.length]) {
    REFUSE(guard, 400, "expected a line end after a chunk");
    return;
  }
  if (!add_byte(guard, byte) || byte != '\n') return;
  yk_strbuf_append_str(out, line_end);
  yk_strbuf_clear(&guard->text);
  guard->state = YK_GUARD_CHUNK_SIZE;
}

/* ---- Interface --------------------------------------------------------------------------------------------------- */

static size_t pass_bytes(yk_request_guard *guard, const char *bytes, size_t n_bytes, yk_strbuf *out)
{
  size_t n = guard->left_bytes < n_bytes ? (size_t)guard->left_bytes : n_bytes;
  yk_strbuf_append(out, bytes, n);
  guard->left_bytes -= n;
  if (guard->left_bytes == 0) guard->state = guard->state == YK_GUARD_BODY ? YK_GUARD_DONE : YK_GUARD_CHUNK_END;
  return n;
}

size_t yk_request_guard_take(yk_request_guard *guard, const char *bytes, size_t n_bytes, yk_strbuf *out)
{
  size_t at = 0;
  while (at < n_bytes) {
    switch (guard->state) {
    case YK_GUARD_HEAD: take_head_byte(guard, bytes[at++], out); break;
    case YK_GUARD_CHUNK_SIZE:
    case YK_GUARD_TRAILER: take_line_byte(guard, bytes[at++], out); break;
    case YK_GUARD_CHUNK_END: take_chunk_end_byte(guard, bytes[at++], out); break;
    case YK_GUARD_BODY:
    case YK_GUARD_CHUNK: at += pass_bytes(guard, bytes + at, n_bytes - at, out); break;
    case YK_GUARD_DONE:
    case YK_GUARD_REFUSED: return at;
    }
  }
  return at;
}

void yk_request_guard_next(yk_request_guard *guard)
{
  yk_strbuf_clear(&guard->text);
  guard->has_line = false;
  guard->method[0] = guard->path[0] = '\0';
  guard->state = YK_GUARD_HEAD;
}

void yk_request_guard_free(yk_request_guard *guard)
{
  yk_strbuf_free(&guard->text);
  yk_strbuf_free(&guard->refusal.body);
}
