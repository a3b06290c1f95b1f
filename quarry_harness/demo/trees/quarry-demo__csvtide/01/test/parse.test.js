'use strict';

const assert = require('node:assert');
const test = require('node:test');
const { parse, stringify } = require('..');

test('quotes, delimiters and line ends inside a field', () => {
  assert.deepStrictEqual(parse('name;note\r\na;"x;""y""\r\nz"\r\n', { delimiter: ';' }), [{ name: 'a', note: 'x;"y"\r\nz' }]);
});

test('what is written can be read', () => {
  const records = [{ a: '1,5', b: '=SUM(A1)' }];
  assert.deepStrictEqual(parse(stringify(records)), records);
});
