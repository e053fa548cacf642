/* passed_fields.h - parts of requests that Yoke ignores, such as unknown fields: the log names each once, so that a
 * mistyped field is noticed and a client that always sends one does not fill the log. */
#ifndef YK_SERVER_PASSED_FIELDS_H
#define YK_SERVER_PASSED_FIELDS_H

#include <pthread.h>

#include "base/log.h"

/* Number of remembered names, and the maximum bytes of a name. Further names are not logged. */
enum { YK_PASSED_FIELDS = 64, YK_PASSED_FIELD_BYTES = 64 };

typedef struct yk_passed_fields {
  const yk_log *log;
  pthread_mutex_t mutex; /* guards all following fields */
  int n;
  char names[YK_PASSED_FIELDS][YK_PASSED_FIELD_BYTES];
} yk_passed_fields;

void yk_passed_fields_init(yk_passed_fields *fields, const yk_log *log);
void yk_passed_fields_destroy(yk_passed_fields *fields);

/* yk_passed_fields_note - for yk_openai_defaults.pass_over, with the fields. Any thread. */
void yk_passed_fields_note(void *fields, const char *kind, const char *name);

#endif
