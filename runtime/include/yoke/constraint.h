/* constraint.h - forms of constraints of an output. */
#ifndef YOKE_API_CONSTRAINT_H
#define YOKE_API_CONSTRAINT_H

/* The form of a constraint's text. */
typedef enum yk_constraint_kind {
  YK_CONSTRAINT_NONE,
  YK_CONSTRAINT_JSON_OBJECT,   /* any JSON object; no text */
  YK_CONSTRAINT_JSON_SCHEMA,   /* a JSON schema (draft 2020-12) */
  YK_CONSTRAINT_REGEX,         /* a regular expression that the whole output matches */
  YK_CONSTRAINT_CHOICE,        /* a JSON array of strings, one of which is the output */
  YK_CONSTRAINT_GRAMMAR,       /* EBNF (GBNF); the first rule is "root" */
  YK_CONSTRAINT_STRUCTURAL_TAG /* JSON: free text with constrained parts between tags, as xgrammar defines them */
} yk_constraint_kind;

#endif
