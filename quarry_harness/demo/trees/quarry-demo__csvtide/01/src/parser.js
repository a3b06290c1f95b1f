'use strict';

const { CsvError } = require('./errors');

const START = 0;
const PLAIN = 1;
const QUOTED = 2;
const AFTER_QUOTE = 3;

/**
 * Takes text piece by piece and hands out complete rows.
 * @param {{delimiter?: string, quote?: string, relaxed?: boolean}} options
 * @param {(row: string[], line: number) => void} onRow
 */
function Parser(options, onRow) {
  this.delimiter = options.delimiter || ',';
  this.quote = options.quote || '"';
  this.relaxed = Boolean(options.relaxed);
  this.onRow = onRow;
  this.state = START;
  this.field = '';
  this.row = [];
  this.line = 1;
  this.sawReturn = false;
}

Parser.prototype.write = function (text) {
  for (const char of text) {
    if (char === '\n' && this.sawReturn) {
      this.sawReturn = false;
      continue;
    }
    this.sawReturn = char === '\r' && this.state !== QUOTED;
    this.step(this.sawReturn ? '\n' : char);
  }
};

Parser.prototype.step = function (char) {
  switch (this.state) {
    case QUOTED:
      if (char === this.quote) {
        this.state = AFTER_QUOTE;
      } else {
        this.field += char;
      }
      break;
    case AFTER_QUOTE:
      if (char === this.quote) {
        this.field += char;
        this.state = QUOTED;
        break;
      }
      if (char !== this.delimiter && char !== '\n' && !this.relaxed) {
        throw new CsvError('text after a closing quote', this.line);
      }
      this.plain(char);
      break;
    case START:
      if (char === this.quote) {
        this.state = QUOTED;
        break;
      }
      this.plain(char);
      break;
    default:
      this.plain(char);
  }
  if (char === '\n') {
    this.line += 1;
  }
};

Parser.prototype.plain = function (char) {
  if (char === this.delimiter) {
    this.endField();
  } else if (char === '\n') {
    this.endRow();
  } else {
    this.field += char;
    this.state = PLAIN;
  }
};

Parser.prototype.endField = function () {
  this.row.push(this.field);
  this.field = '';
  this.state = START;
};

Parser.prototype.endRow = function () {
  const blank = this.row.length === 0 && this.field === '' && this.state === START;
  this.endField();
  const row = this.row;
  this.row = [];
  if (!blank) {
    this.onRow(row, this.line);
  }
};

Parser.prototype.end = function () {
  if (this.state === QUOTED) {
    throw new CsvError('the file ends inside a quoted field', this.line);
  }
  if (this.row.length > 0 || this.field !== '' || this.state !== START) {
    this.endRow();
  }
};

module.exports = { Parser };
