// The TypeScript compiler's parser: the functions of the JavaScript and TypeScript files named on standard input, as
// JSON lines. The one argument is the folder of the `typescript` package.
//
// Which functions: declarations (no generators) and variables that hold a function, outside all functions; methods of
// declared classes and interfaces, abstract ones and overloads without a body too; functions assigned to a member
// in a statement of its own; methods of an object that a variable or an assignment outside all functions holds, that is
// exported, or that a found function itself returns; and anywhere in a found function or in an expression statement,
// what is assigned to `X.prototype.y` or to a member of a global object.
'use strict';

const fs = require('fs');
const path = require('path');
const ts = require(path.resolve(process.argv[2]));

const K = ts.SyntaxKind;
const GLOBALS = ['exports', 'module', 'window', 'global', 'globalThis', 'self', 'console', 'process'];

class Finder {
  constructor(source, emit) {
    this.source = source;
    this.text = source.text;
    this.emit = emit;
    this.breaks = [];
    for (let at = this.text.indexOf('\n'); at >= 0; at = this.text.indexOf('\n', at + 1)) this.breaks.push(at);
  }

  // Lines are counted by LF alone; the compiler counts other line breaks, too.
  line(position) {
    let low = 0;
    let high = this.breaks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.breaks[middle] < position) low = middle + 1;
      else high = middle;
    }
    return low + 1;
  }

  row(name, node, body) {
    const decorators = ts.canHaveDecorators(node) ? ts.getDecorators(node) ?? [] : [];
    const after = decorators.length ? decorators[decorators.length - 1].end : node.pos;
    const start = Math.max(node.getStart(this.source), ts.skipTrivia(this.text, after));
    this.emit(name, this.line(start), this.line(node.end - 1), body !== undefined);
    if (body) this.inside(body);
  }

  nameOf(name) {
    return ts.isStringLiteral(name) ? this.text.slice(name.getStart(this.source) + 1, name.end - 1)
      : name.getText(this.source);
  }

  // An expression without the parentheses and type assertions around it.
  value(node) {
    while (node && (ts.isParenthesizedExpression(node) || ts.isAsExpression(node) || ts.isSatisfiesExpression(node)
      || ts.isTypeAssertionExpression(node))) node = node.expression;
    return node;
  }

  isFunction(node) {
    return node && (ts.isArrowFunction(node) || ts.isFunctionExpression(node));
  }

  statements(nodes) {
    for (const node of nodes) this.statement(node);
  }

  statement(node) {
    if (!node) return;
    if (ts.isFunctionDeclaration(node)) {
      if (node.name && !node.asteriskToken) this.row(node.name.text, node, node.body);
      else if (node.body) this.inside(node.body);
    } else if (ts.isClassDeclaration(node)) this.members(node);
    else if (ts.isInterfaceDeclaration(node)) this.signatures(node);
    else if (ts.isModuleDeclaration(node)) this.statement(node.body);
    else if (ts.isModuleBlock(node) || ts.isBlock(node)) this.statements(node.statements);
    else if (ts.isVariableStatement(node)) this.variables(node);
    else if (ts.isExpressionStatement(node)) this.expression(node.expression);
    else if (ts.isExportAssignment(node)) this.held(this.value(node.expression));
    else if (ts.isIfStatement(node)) this.statements([node.thenStatement, node.elseStatement]);
    else if (ts.isTryStatement(node)) {
      this.statements([node.tryBlock, node.catchClause && node.catchClause.block, node.finallyBlock]);
    }
  }

  members(node) {
    for (const member of node.members) {
      if (ts.isConstructorDeclaration(member)) this.row('constructor', member, member.body);
      else if (ts.isMethodDeclaration(member) || ts.isAccessor(member)) {
        this.row(this.nameOf(member.name), member, member.body);
      } else if (ts.isPropertyDeclaration(member)) this.silent(this.value(member.initializer));
    }
  }

  signatures(node) {
    for (const member of node.members) {
      if (ts.isMethodSignature(member) || ts.isAccessor(member)) this.row(this.nameOf(member.name), member, undefined);
    }
  }

  variables(node) {
    for (const one of node.declarationList.declarations) {
      const value = this.value(one.initializer);
      if (this.isFunction(value) && !value.asteriskToken) this.row(one.name.getText(this.source), node, value.body);
      else this.held(value);
    }
  }

  // A value that is no chunk itself: what it holds may be.
  held(value) {
    if (!value) return;
    if (ts.isObjectLiteralExpression(value)) this.object(value);
    else if (ts.isCallExpression(value) || ts.isNewExpression(value)) this.assigned(value);
    else this.silent(value);
  }

  silent(value) {
    if (this.isFunction(value)) this.inside(value.body);
  }

  object(node) {
    for (const property of node.properties) {
      if (ts.isMethodDeclaration(property) || ts.isAccessor(property)) {
        this.row(this.nameOf(property.name), property, property.body);
      } else if (ts.isPropertyAssignment(property)) {
        const value = this.value(property.initializer);
        if (this.isFunction(value) && !value.asteriskToken) this.row(this.nameOf(property.name), property, value.body);
        else this.silent(value);
      }
    }
  }

  isAssignment(node) {
    return ts.isBinaryExpression(node) && node.operatorToken.kind === K.EqualsToken;
  }

  expression(node) {
    while (this.isAssignment(node)) {
      this.assignment(node);
      node = node.right;
    }
    this.assigned(node);
  }

  assignment(node) {
    if (!ts.isPropertyAccessExpression(node.left)) return;
    const value = this.value(node.right);
    if (ts.isObjectLiteralExpression(value)) this.object(value);
    if (!this.isFunction(value)) return;
    const isDefault = node.left.getText(this.source).replace(/\s/g, '') === 'module.exports';
    if (isDefault || value.asteriskToken) this.silent(value);
    else this.row(node.left.name.text, node, value.body);
  }

  // What a found function's body holds by rule.
  inside(body) {
    this.returned(body);
    this.assigned(body);
  }

  returned(node) {
    if (ts.isReturnStatement(node) && node.expression) {
      const value = this.leftmost(node.expression);
      if (ts.isObjectLiteralExpression(value)) this.object(value);
    }
    ts.forEachChild(node, (child) => {
      if (!ts.isFunctionLike(child) && !ts.isClassLike(child)) this.returned(child);
    });
  }

  // `{..} as T`, and other expressions that begin with an object.
  leftmost(node) {
    while (ts.isAsExpression(node) || ts.isSatisfiesExpression(node)) node = node.expression;
    return node;
  }

  assigned(node) {
    if (this.isAssignment(node) && ts.isPropertyAccessExpression(node.left) && this.isFunction(this.value(node.right))) {
      const owner = node.left.expression.getText(this.source);
      if (owner.endsWith('.prototype') || GLOBALS.includes(owner.split('.')[0])) {
        this.assignment(node);
        return;
      }
    }
    ts.forEachChild(node, (child) => this.assigned(child));
  }
}

function read(file) {
  const text = fs.readFileSync(file, 'utf8');
  const kinds = { '.tsx': ts.ScriptKind.TSX, '.jsx': ts.ScriptKind.JSX, '.js': ts.ScriptKind.JSX };
  const kind = kinds[path.extname(file)] ?? (/\.[cm]?ts$/.test(file) ? ts.ScriptKind.TS : ts.ScriptKind.JSX);
  return ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true, kind);
}

for (const file of fs.readFileSync(0, 'utf8').split('\n').filter(Boolean)) {
  const source = read(file);
  const say = (row) => process.stdout.write(`${JSON.stringify({ path: file, ...row })}\n`);
  if (source.parseDiagnostics.length) {
    say({ failed: ts.flattenDiagnosticMessageText(source.parseDiagnostics[0].messageText, ' ') });
  } else {
    say({ parsed: true });
    const emit = (name, first, last, body) => say({ name, start_line: first, end_line: last, body });
    new Finder(source, emit).statements(source.statements);
  }
}
