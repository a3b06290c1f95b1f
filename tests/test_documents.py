from quarry_harness.documents import document_text


def test_free_function_is_path_name_newline_source() -> None:
    assert document_text("pkg/mod.py", "", "work", "def work():\n    pass") == "pkg/mod.py/work\ndef work():\n    pass"


def test_method_is_the_measured_contract_to_the_letter() -> None:
    source = "    def do_work(self):\n        pass"
    expected = "pkg/mod.py/Worker/do_work\nclass Worker:    def do_work(self):\n        pass"
    assert document_text("pkg/mod.py", "Worker", "do_work", source) == expected


def test_the_word_class_stands_whatever_the_language_calls_its_container() -> None:
    assert document_text("a.rs", "Lexer", "next", "    fn next() {}") == "a.rs/Lexer/next\nclass Lexer:    fn next() {}"
