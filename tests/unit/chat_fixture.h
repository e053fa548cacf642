/* chat_fixture.h - conversations for tests of chat templates, packed with jansson. */
#ifndef YK_TESTS_CHAT_FIXTURE_H
#define YK_TESTS_CHAT_FIXTURE_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* The document of a tree, whose reference is taken; the caller frees the document with yk_json_free. */
static inline yk_json_doc *document_of(json_t *tree)
{
  yk_json_doc *doc = NULL;
  assert_non_null(tree);
  char *text = json_dumps(tree, JSON_COMPACT | JSON_ENCODE_ANY);
  assert_non_null(text);
  assert_int_equal(yk_json_parse("test", text, strlen(text), NULL, &doc, NULL), YK_OK);
  free(text);
  json_decref(tree);
  return doc;
}

#endif
