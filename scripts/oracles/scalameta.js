// The parser of scalameta: the functions of the Scala 2 files named on standard input, as JSON lines. The one argument
// is the folder of the `scalameta-parsers` package.
//
// Which functions: members of classes, traits, objects and of anonymous classes (`new T {..}`), wherever those stand,
// abstract ones too; not the defs and the classes in blocks. A secondary constructor is named as its class.
'use strict';

const fs = require('fs');
const path = require('path');
const { parseSource } = require(path.resolve(process.argv[2]));

const TYPES = ['Defn.Class', 'Defn.Trait', 'Defn.Object', 'Defn.Enum', 'Defn.Given', 'Pkg.Object'];

function children(node) {
  const values = Object.entries(node).filter(([key]) => key !== 'pos').flatMap(([, value]) => value);
  return values.filter((value) => value && value.type);
}

function functions(file, text, tree) {
  const line = (position) => text.slice(0, position).split('\n').length;

  function row(node, name, body) {
    const place = { start_line: line(node.pos.start), end_line: line(node.pos.end - 1) };
    process.stdout.write(`${JSON.stringify({ path: file, name, ...place, body })}\n`);
  }

  // A statement of a package or of a type's body.
  function member(node, type) {
    if (['Defn.Def', 'Defn.Macro', 'Decl.Def'].includes(node.type)) {
      // As written: the labels keep backquotes.
      row(node, text.slice(node.name.pos.start, node.name.pos.end), node.type !== 'Decl.Def');
      anonymous(node);
    } else if (node.type === 'Ctor.Secondary') {
      row(node, type, true);
      anonymous(node);
    } else if (TYPES.includes(node.type)) {
      children(node).filter((child) => child.type !== 'Template').forEach(anonymous);
      template(node.templ, node.name.value);
    } else if (['Source', 'Pkg', 'Pkg.Body', 'Defn.ExtensionGroup'].includes(node.type)) {
      children(node).forEach((child) => member(child, type));
    } else anonymous(node);
  }

  function template(node, type) {
    for (const child of children(node)) {
      if (child.type === 'Template.Body') children(child).forEach((one) => member(one, type));
      else anonymous(child);
    }
  }

  function anonymous(node) {
    if (node.type === 'Term.NewAnonymous') template(node.templ, '');
    else children(node).forEach(anonymous);
  }

  member(tree, '');
}

for (const file of fs.readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
  const text = fs.readFileSync(file, 'utf8');
  const tree = parseSource(text);
  const outcome = tree.error ? { failed: tree.error } : { parsed: true };
  process.stdout.write(`${JSON.stringify({ path: file, ...outcome })}\n`);
  if (!tree.error) functions(file, text, tree);
}
